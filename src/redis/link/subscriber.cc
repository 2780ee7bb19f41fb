#include "src/redis/link/subscriber.h"

#include <poll.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

Subscriber::Subscriber(const Url& url, SubscriberOptions options, Endpoint endpoint)
    : options_(std::move(options)),
      server_(url.DebugString()),
      thread_(options_.thread != nullptr ? options_.thread : std::make_shared<SubscriberThread>()),
      connector_(url, Handshake::Purpose::kSubscriptions, options_.open, std::move(endpoint),
                 options_.where),
      reconnect_(options_.first_backoff, options_.longest_backoff),
      lost_(options_.first_is_again) {}

Subscriber::~Subscriber() { Stop(); }

void Subscriber::operator delete(Subscriber* subscriber, std::destroying_delete_t) {
  if (subscriber->fork_guard_.InForkedChild()) {
    subscriber->dialogue_.transport.reset();
    subscriber->connector_.CloseInForkedChild();
    subscriber->thread_->CloseInForkedChild();
    return subscriber->wake_.Close();
  }
  subscriber->~Subscriber();
  ::operator delete(subscriber);
}

void Subscriber::Stop() {
  if (!fork_guard_.InForkedChild()) thread_->Remove(*this);
}

absl::Status Subscriber::Begin() {
  if (begun_) return absl::OkStatus();
  if (absl::Status added = thread_->Add(*this); !added.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", server_, ": ", std::string(added.message())));
  }
  begun_ = true;
  return absl::OkStatus();
}

Subscriber::SubscriptionPtr Subscriber::Find(std::string_view channel) const {
  const auto known = subscriptions_.find(channel);
  return known == subscriptions_.end() ? nullptr : known->second;
}

void Subscriber::Set(Subscription& subscription, State state) {
  asked_ -= subscription.state == State::kAsked ? 1 : 0;
  asked_ += state == State::kAsked ? 1 : 0;
  subscription.state = state;
}

void Subscriber::End(Subscription& subscription, absl::Status why) {
  Set(subscription, State::kEnded);
  subscription.end = std::move(why);
  changed_.SignalAll();
  // Another subscription may have taken its name while it was being left.
  const auto known = subscriptions_.find(subscription.channel);
  if (known != subscriptions_.end() && known->second.get() == &subscription) {
    subscriptions_.erase(known);
  }
}

absl::Status Subscriber::Subscribe(std::string_view channel, base::Instant deadline,
                                   const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] {
    const base::MutexLock lock(mu_);
    changed_.SignalAll();
  });
  const base::MutexLock lock(mu_);
  SubscriptionPtr subscription = Find(channel);
  if (subscription == nullptr || subscription->state == State::kLeaving) {
    if (absl::Status begun = Begin(); !begun.ok()) return begun;
    subscription = std::make_shared<Subscription>(channel);
    requests_.reserve(requests_.size() + 1);  // the rest must not fail half-way
    subscriptions_[subscription->channel] = subscription;
    ++asked_;
    if (connected_) requests_.push_back({Verb::kSubscribe, subscription});
    WakeReader();
  }
  const uint64_t refusals = refusals_;
  while (subscription->state == State::kAsked && refusals_ == refusals && base::Now() < deadline &&
         !stop.stop_requested()) {
    changed_.WaitUntil(mu_, deadline);
  }
  if (subscription->state == State::kLive) return absl::OkStatus();
  if (subscription->state != State::kAsked) return base::Unshared(subscription->end);
  if (refusals_ != refusals) return base::Unshared(last_failure_);
  subscription->promised = true;
  std::string why = connected_ ? server_ + " has not acknowledged the subscription"
                               : "not yet connected to " + server_;
  if (!connected_ && !last_failure_.ok()) why = std::string(last_failure_.message());
  return absl::UnavailableError(why + " (still trying in the background)");
}

absl::Status Subscriber::Unsubscribe(std::string_view channel, base::Instant deadline) {
  const base::MutexLock lock(mu_);
  const SubscriptionPtr subscription = Find(channel);
  if (subscription == nullptr) return absl::OkStatus();
  if (subscription->state != State::kLeaving) {
    subscription->end = absl::CancelledError("the channel was unsubscribed in the meantime");
    if (!connected_) {
      End(*subscription, subscription->end);
      WakeReader();  // it need not connect any more
      return absl::OkStatus();
    }
    requests_.push_back({Verb::kUnsubscribe, subscription});
    Set(*subscription, State::kLeaving);
    changed_.SignalAll();  // a Subscribe() may wait
    WakeReader();
  }
  while (subscription->state == State::kLeaving && base::Now() < deadline) {
    changed_.WaitUntil(mu_, deadline);
  }
  if (subscription->state != State::kLeaving) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(server_, " has not acknowledged the end of a subscription"));
}

void Subscriber::ReplaceConnection() {
  const base::MutexLock lock(mu_);
  if (replace_ || subscriptions_.empty() || !AllLive()) return;
  replace_ = true;
  WakeReader();
}

void Subscriber::Ping() {
  const base::MutexLock lock(mu_);
  if (!connected_ || ping_) return;
  ping_ = true;
  WakeReader();
}

bool Subscriber::live() const {
  const base::MutexLock lock(mu_);
  return AllLive();
}

std::optional<Peer> Subscriber::peer() const {
  const base::MutexLock lock(mu_);
  return AllLive() ? peer_ : std::nullopt;
}

Subscriber::Stats Subscriber::stats() const {
  const base::MutexLock lock(mu_);
  return stats_;
}

// ---- The steps of the reader.

namespace {

// Looking up a host or starting a server cannot be interrupted. This limits one step of it, and so
// the time of the destructor.
constexpr absl::Duration kConnectStep = absl::Milliseconds(100);

// While messages must be read at once, a connection that is silent for that long is pinged, and is
// given up if it then does not answer for that long.
constexpr absl::Duration kUrgentSilence = absl::Seconds(1);

}  // namespace

Awaited Subscriber::Serve(const Readiness& ready, int wake_fd) {
  bool idle = false;
  {
    const base::MutexLock lock(mu_);
    relievable_ = false;
    if (StaysAway(base::Now())) return {.until = *nap_until_};
    idle = subscriptions_.empty();
  }
  if (dialogue_.transport != nullptr && !broken_) Take(ready);
  for (;;) {
    if (broken_) Break();
    if (dialogue_.transport == nullptr) {
      if (idle) {
        connector_.Abandon();
        return {};
      }
      if (base::Now() < reconnect_.next_attempt()) return {.until = reconnect_.next_attempt()};
      if (const std::optional<Awaited> awaited = Connect(wake_fd)) return *awaited;
    }
    const Awaited next = Prepare(base::Instant::Infinite());
    if (broken_) continue;
    const base::MutexLock lock(mu_);
    relievable_ = true;
    return next;
  }
}

// Returns what to wait for; nothing if it is connected.
std::optional<Awaited> Subscriber::Connect(int wake_fd) {
  Awaited awaited{.until = base::Instant()};  // at once, if no other subscriber is to be served
  auto step = wake_fd >= 0 ? connector_.Step(base::Now() + kConnectStep, wake_fd)
                           : connector_.Poll(&awaited);
  if (!step.ok()) {
    reconnect_.Failed();
    NotConnected(step.status());
    return Awaited{.until = reconnect_.next_attempt()};
  }
  if (!step->has_value()) return awaited;
  dialogue_ = std::move((*step)->dialogue);
  left_.reset();
  last_read_ = base::Now();
  reconnect_.Made();
  {
    const base::MutexLock lock(mu_);
    base::Reserve(requests_, requests_.size() + subscriptions_.size());
    for (const auto& [channel, subscription] : subscriptions_) {
      requests_.push_back({Verb::kSubscribe, subscription});
    }
    restoring_ = requests_.size();
    connected_ = true;
    peer_ = Peer{.target = std::move((*step)->target), .since = last_read_};
    ++stats_.connects;
  }
  if (restoring_ == 0) Restored();
  return std::nullopt;
}

void Subscriber::NotConnected(const absl::Status& why) {
  lost_ = true;
  {
    const base::MutexLock lock(mu_);
    last_failure_ = why;
    if (!absl::IsUnavailable(why)) {
      // Waiting calls are told at once; a channel that no earlier call counts on ends.
      ++refusals_;
      for (auto next = subscriptions_.begin(); next != subscriptions_.end();) {
        const SubscriptionPtr each = (next++)->second;
        if (!each->promised) End(*each, why);
      }
      changed_.SignalAll();
    }
  }
  if (options_.on_down) options_.on_down(why);
}

void Subscriber::Break() {
  const std::string why = *std::exchange(broken_, std::nullopt);
  {
    const base::MutexLock lock(mu_);
    ++stats_.breaks;
    connected_ = false;
    replace_ = false;
    ping_ = false;
    peer_.reset();
    // The server's subscriptions ended with the connection.
    const auto end = [this](auto& requests) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      for (const ChannelRequest& request : requests) {
        if (request.verb == Verb::kUnsubscribe) {
          End(*request.subscription, request.subscription->end);
        }
      }
      requests.clear();
    };
    end(pending_);
    end(requests_);
    for (const auto& [channel, subscription] : subscriptions_) {
      Set(*subscription, State::kAsked);
    }
  }
  dialogue_ = Dialogue();
  NotConnected(base::WithMemory([&] {
    return absl::UnavailableError(absl::StrCat("lost the subscriptions at ", server_, ": ", why));
  }));
  reconnect_.Lost();
}

Awaited Subscriber::Prepare(base::Instant deadline) try {
  bool wanted = false;
  bool ping = false;
  {
    const base::MutexLock lock(mu_);
    ping = std::exchange(ping_, false);
    if (replace_) {
      Fail("a new connection was asked for");
      return {};
    }
    for (const ChannelRequest& request : requests_) Ask(request);
    requests_.clear();  // if Ask() throws, Break() handles all
    wanted = !subscriptions_.empty();
    keeps_reading_ = keep_reading_ > 0;
  }
  const base::Instant now = base::Now();
  const absl::Duration silence =
      keeps_reading_ ? std::min(options_.ping_interval, kUrgentSilence) : options_.ping_interval;
  if (pending_.empty() && wanted && (ping || last_read_ + silence <= now)) {
    Ask({Verb::kPing, nullptr});
  }
  Awaited awaited{.transport = dialogue_.transport.get(),
                  .interest = dialogue_.Write() | dialogue_.read_wants,
                  .until = deadline};
  if (!dialogue_.unwritable.empty()) {
    awaited.until = now;  // its last words are read
  } else if (!pending_.empty()) {
    awaited.until = std::min(deadline, last_read_ + AnswerTimeout());
  } else if (wanted) {
    // KeepReading() wakes no reader: it is noticed here.
    awaited.until = std::min({deadline, last_read_ + silence, now + kUrgentSilence});
  }
  return awaited;
} catch (const std::bad_alloc&) {
  Fail("no memory");
  return {};
}

absl::Duration Subscriber::AnswerTimeout() const {
  const bool pings = keeps_reading_ && pending_.front().verb == Verb::kPing;
  return pings ? std::min(options_.answer_timeout, kUrgentSilence) : options_.answer_timeout;
}

void Subscriber::Take(const Readiness& ready) try {
  if (ready.Meets(dialogue_.read_wants)) return ReadSome();
  if (!dialogue_.unwritable.empty()) return Fail(dialogue_.unwritable);
  if (!pending_.empty() && last_read_ + AnswerTimeout() <= base::Now()) {
    Fail("no answer within " + absl::FormatDuration(AnswerTimeout()));
  }
} catch (const std::bad_alloc&) {
  arrived_.clear();
  Fail("no memory");
}

void Subscriber::Ask(const ChannelRequest& request) {
  if (pending_.empty()) last_read_ = base::Now();
  switch (request.verb) {
    case Verb::kSubscribe:
      dialogue_.unwritten.append(
          Command{options_.sharded ? "SSUBSCRIBE" : "SUBSCRIBE", request.subscription->channel}
              .bytes());
      break;
    case Verb::kUnsubscribe:
      dialogue_.unwritten.append(
          Command{options_.sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", request.subscription->channel}
              .bytes());
      break;
    case Verb::kPing:
      dialogue_.unwritten.append(Command{"PING"}.bytes());
      break;
  }
  pending_.push_back(request);
}

void Subscriber::ReadSome() {
  const absl::StatusOr<bool> got = dialogue_.Read();
  if (got.ok() && !*got) return;
  last_read_ = base::Now();
  arrived_.swap(dialogue_.replies);
  for (const Reply& reply : arrived_) {
    if (!broken_) Handle(reply);
  }
  arrived_.clear();
  if (!got.ok() && !broken_) Fail(std::string(got.status().message()));
}

// ---- Which thread reads a subscriber's connection: its own, or a waiter: a thread that waits for
// a message and would otherwise be woken by it. On an idle machine, that wake-up takes as long as
// the message itself.
//
//   reader     thread                       becomes
//   kThread    the subscriber's             kWaiter, if it sleeps in poll and a thread waits
//   kWaiter    the only one in Await()      kNone, when Await() returns
//   kNone      none, for at most a nap      kWaiter, or kThread when the nap ends
//
// The reader's members pass from thread to thread under `mu_`. Only the subscriber's thread makes
// and ends connections: it may still be in poll on one when a waiter has taken over.

namespace {

// How long a message may lie unread if no thread waits for it.
constexpr absl::Duration kNap = absl::Milliseconds(50);

}  // namespace

// The connections of several subscribers that one waiter reads.
class Subscriber::Reading {
 public:
  explicit Reading(absl::Span<Subscriber* const> all) {
    for (Subscriber* const each : all) {
      if (each->BeginAwaiting()) places_.push_back({.its = each});
    }
  }
  ~Reading() {
    for (const Place& place : places_) Leave(*place.its);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  // Handles what comes until the parker is set, or until then.
  void Until(base::Parker& parker, base::Instant deadline) {
    while (Prepare(deadline) && parker.value() == base::Parker::kArmed && base::Now() < deadline) {
      if (!places_[0].its->wake_.Open() || !parker.BeginPolling(places_[0].its->wake_.fd())) return;
      Poll(deadline);
      parker.EndPolling();
      for (Place& place : places_) {
        if (!place.its->broken_) place.its->Take(place.ready);
      }
    }
  }

 private:
  struct Place {
    Subscriber* its;
    Awaited awaited = {};
    Transport::Polled polled = {};
    Readiness ready = {};
  };

  static void Leave(Subscriber& its) {
    const base::MutexLock lock(its.mu_);
    its.Leave();
  }

  // Sends what is due. Connections that are broken are left to the subscriber's thread. Returns
  // false if none is left.
  bool Prepare(base::Instant deadline) {
    for (size_t i = places_.size(); i-- > 0;) {
      Subscriber& its = *places_[i].its;
      if (!its.broken_) places_[i].awaited = its.Prepare(deadline);
      if (!its.broken_) continue;
      places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(i));
      Leave(its);
    }
    return !places_.empty();
  }

  void Poll(base::Instant until) {
    absl::InlinedVector<pollfd, 12> fds;
    for (Place& place : places_) {
      Transport& transport = *place.awaited.transport;
      place.polled = transport.BeginPoll(place.awaited.interest);
      until = std::min({until, place.awaited.until, place.polled.until});
      if (place.polled.already.Meets(Interest::kReadAndWrite)) until = base::Instant();
      fds.push_back({.fd = place.polled.fd, .events = place.polled.events, .revents = 0});
      fds.push_back({.fd = place.its->wake_.fd(), .events = POLLIN, .revents = 0});
    }
    const bool came = base::Poll(fds.data(), fds.size(), until) > 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      const int16_t here = came ? fds[2 * i].revents : int16_t{0};
      place.ready = place.polled.already;
      if (!place.ready.Meets(Interest::kReadAndWrite)) {
        place.ready = place.awaited.transport->EndPoll(place.polled, here);
      }
      if (came && fds[2 * i + 1].revents != 0) place.its->wake_.Drain();
    }
  }

  absl::InlinedVector<Place, 6> places_;
};

uint32_t Subscriber::Await(base::Parker& parker, base::Instant deadline) {
  if (BeginAwaiting()) {
    while (!broken_ && parker.value() == base::Parker::kArmed && base::Now() < deadline) {
      const Awaited awaited = Prepare(deadline);
      if (!broken_) Take(WaitAsReader(awaited, parker));
    }
    const base::MutexLock lock(mu_);
    Leave();
  }
  const uint32_t value = parker.ParkUntil(deadline);
  const base::MutexLock lock(mu_);
  --waiting_;
  return value;
}

uint32_t Subscriber::AwaitAny(absl::Span<Subscriber* const> all, base::Parker& parker,
                              base::Instant deadline) {
  Reading(all).Until(parker, deadline);
  const uint32_t value = parker.ParkUntil(deadline);
  for (Subscriber* const each : all) {
    const base::MutexLock lock(each->mu_);
    --each->waiting_;
  }
  return value;
}

// Counts the waiter. Returns true if it reads.
bool Subscriber::BeginAwaiting() {
  const base::MutexLock lock(mu_);
  ++waiting_;
  const bool reads = BecomeReader();
  // The last waiter that read has left, and may still be counted. It did not know of this one.
  if (!reads && reader_ == Reader::kNone && !must_return_) BringThreadBack();
  return reads;
}

// No waiter reads while others wait: they would depend on when it leaves. None reads while messages
// must be read at once either: waking the thread whenever a waiter leaves would cost more.
bool Subscriber::BecomeReader() {
  const bool vacant = reader_ == Reader::kThread ? relievable_ : reader_ == Reader::kNone;
  if (!vacant || !connected_ || waiting_ > 1 || keep_reading_ > 0 || must_return_ ||
      !wake_.Open()) {
    return false;
  }
  reader_ = Reader::kWaiter;
  ++waiter_reads_;
  return true;
}

void Subscriber::Leave() {
  reader_ = Reader::kNone;
  const bool sleeps_long = nap_until_ && nap_until_->is_infinite();
  if (sleeps_long || keep_reading_ > 0 || waiting_ > 1 || broken_ || !requests_.empty() ||
      !pending_.empty()) {
    BringThreadBack();
  } else if (relievable_) {
    thread_->Wake();  // it did not notice the waiter: it must nap now, not sleep
  }
}

void Subscriber::KeepReading(bool begins) {
  const base::MutexLock lock(mu_);
  keep_reading_ += begins ? 1 : -1;
  if (keep_reading_ > 0 && reader_ == Reader::kNone && !must_return_) BringThreadBack();
}

void Subscriber::BringThreadBack() {
  must_return_ = true;
  thread_->Wake();
}

void Subscriber::WakeReader() {
  if (reader_ == Reader::kNone) {
    BringThreadBack();
  } else if (reader_ == Reader::kWaiter) {
    wake_.Signal();
  } else {
    thread_->Wake();
  }
}

Readiness Subscriber::WaitAsReader(const Awaited& awaited, base::Parker& parker) {
  if (!wake_.Open()) {
    Fail("no file descriptor is left (raise ulimit -n)");
    return {};
  }
  if (!parker.BeginPolling(wake_.fd())) return {};
  const Readiness ready = awaited.transport->Wait(awaited.interest, wake_.fd(), awaited.until);
  parker.EndPolling();
  if (ready.woken) wake_.Drain();
  return ready;
}

// True if the thread leaves the reading to waiters. While they come and go it naps, so that none of
// them has to wake it; while one stays it sleeps.
bool Subscriber::StaysAway(base::Instant now) {
  if (reader_ == Reader::kThread) return false;
  const bool nap_over = nap_until_ && *nap_until_ <= now;
  const bool same = waiter_reads_ == waiter_reads_at_nap_;
  if (must_return_ || (nap_over && same && reader_ == Reader::kNone)) {
    must_return_ = false;
    nap_until_.reset();
    reader_ = Reader::kThread;
    return false;
  }
  if (nap_until_ && !nap_over) return true;
  const bool one_stays = nap_over && same && reader_ == Reader::kWaiter;
  nap_until_ = one_stays ? base::Instant::Infinite() : now + kNap;
  waiter_reads_at_nap_ = waiter_reads_;
  return true;
}

// ---- Replies and messages from the server.

void Subscriber::Handle(const Reply& reply) {
  if (reply.elements.size() == 3 &&
      reply.elements[0].text == (options_.sharded ? "smessage" : "message")) {
    return HandleMessage(reply.elements[1].text, reply.elements[2].text);
  }
  if (IsEndedByServer(reply)) return EndByServer(reply.elements[1].text);
  if (AnswersEndedSubscription(reply)) return;
  if (pending_.empty())
    return Fail("it sent something that nothing had asked for: " + reply.DebugString());
  HandleAnswer(reply);
}

void Subscriber::HandleMessage(const std::string& channel, const std::string& message) {
  {
    const base::MutexLock lock(mu_);
    const SubscriptionPtr known = Find(channel);
    if (known == nullptr || known->state != State::kLive) return;
    ++stats_.messages;
  }
  reconnect_.Received(1);
  if (options_.on_message) options_.on_message(channel, message);
}

void Subscriber::HandleAnswer(const Reply& reply) {
  const ChannelRequest request = std::move(pending_.front());
  pending_.pop_front();
  if (request.verb == Verb::kPing) return;  // any reply shows that it is alive
  Subscription& subscription = *request.subscription;
  if (reply.is_error()) {
    const absl::Status why = ErrorStatus(reply.text, server_);
    const bool moved = RedirectOf(why).has_value();
    // CLUSTERDOWN is about this channel's slot alone.
    const bool unserved = options_.sharded && ClassifyError(reply.text) == ErrorCode::kClusterDown;
    const bool tells = moved || unserved;
    if (!tells && (request.verb != Verb::kSubscribe || absl::IsUnavailable(why))) {
      return Fail(std::string(why.message()));
    }
    if (request.verb == Verb::kSubscribe) {
      Refuse(subscription, unserved ? MarkNotSent(why) : why);
    } else {  // the server had ended it
      const base::MutexLock lock(mu_);
      End(subscription, subscription.end);
    }
  } else {
    const std::string verb =
        absl::StrCat(options_.sharded ? "s" : "",
                     request.verb == Verb::kSubscribe ? "subscribe" : "unsubscribe");
    if (reply.elements.size() != 3 || reply.elements[0].text != verb ||
        reply.elements[1].text != subscription.channel) {
      return Fail("it answered " + reply.DebugString() + " instead of " + verb);
    }
    const base::MutexLock lock(mu_);
    if (request.verb == Verb::kUnsubscribe) {
      if (options_.sharded) left_ = SlotOf(subscription.channel);
      End(subscription, subscription.end);
    } else if (subscription.state == State::kAsked) {
      Set(subscription, State::kLive);
      subscription.promised = true;
      changed_.SignalAll();
    }
  }
  if (restoring_ > 0 && --restoring_ == 0) Restored();
}

void Subscriber::Refuse(Subscription& subscription, const absl::Status& why) {
  bool tell = false;
  {
    const base::MutexLock lock(mu_);
    tell = subscription.promised && subscription.state == State::kAsked;
    End(subscription, why);
  }
  if (tell && options_.on_refused) options_.on_refused(subscription.channel, why);
}

// A server that loses a slot sends this for each channel in it, unasked.
bool Subscriber::IsEndedByServer(const Reply& reply) const {
  if (!options_.sharded || reply.elements.size() != 3 || reply.elements[0].text != "sunsubscribe") {
    return false;
  }
  const bool asked = !pending_.empty() && pending_.front().verb == Verb::kUnsubscribe &&
                     pending_.front().subscription->channel == reply.elements[1].text;
  return !asked;
}

// The server may have ended the subscription by itself, because the slot moved, just before it read
// the client's request to leave the channel. Then its reply to that request is still to come: a
// redirection of the same slot.
bool Subscriber::AnswersEndedSubscription(const Reply& reply) {
  if (!left_) return false;
  const std::optional<Redirect> redirect =
      reply.is_error() ? RedirectOf(ErrorStatus(reply.text, server_)) : std::nullopt;
  if (!redirect || redirect->slot != *left_) {
    left_.reset();
    return false;
  }
  const Subscription* const next = pending_.empty() ? nullptr : pending_.front().subscription.get();
  return next == nullptr || SlotOf(next->channel) != *left_;
}

void Subscriber::EndByServer(const std::string& channel) {
  const absl::Status why = MarkNotSent(absl::UnavailableError(
      absl::StrCat(server_, " does not serve the slot of ", channel, " any more")));
  {
    const base::MutexLock lock(mu_);
    const SubscriptionPtr known = Find(channel);
    if (known == nullptr || known->state != State::kLive) return;
    End(*known, why);
  }
  if (options_.on_refused) options_.on_refused(channel, why);
}

// All subscriptions that existed when this connection was made are live.
void Subscriber::Restored() {
  {
    const base::MutexLock lock(mu_);
    if (peer_) peer_->since = base::Now();
  }
  reconnect_.Received(1);
  if (!std::exchange(lost_, false)) return;
  if (options_.on_live_again) options_.on_live_again();
}

}  // namespace redlatch::redis
