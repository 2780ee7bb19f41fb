// What the reader of a subscriber does; what its callers do is in subscriber.cc.
#include <poll.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// Looking up a host or starting a server cannot be interrupted: the longest that a step of it, and
// with it the destructor, may take.
constexpr absl::Duration kDeafest = absl::Milliseconds(100);

// Somebody else may close the descriptors that it polls, and then nothing wakes it any more: it
// looks so often.
constexpr absl::Duration kLongestSleep = absl::Seconds(1);

}  // namespace

void Subscriber::Run() {
  for (;;) {
    bool idle = false;
    {
      const base::MutexLock lock(mu_);
      if (stopping_) return;
      idle = subscriptions_.empty();
    }
    if (dialogue_.transport != nullptr) {
      Serve(nullptr, base::Instant::Infinite());
      if (broken_) Break();
    } else if (idle) {
      connector_.Abandon();
      SleepUntil(base::Instant::Infinite());
    } else if (base::Now() < comeback_.next_attempt()) {
      SleepUntil(comeback_.next_attempt());
    } else {
      Connect();
    }
  }
}

// Ends early when the thread is woken, whatever for.
void Subscriber::SleepUntil(base::Instant deadline) {
  wake_.Open();
  const base::Instant until = std::min(deadline, base::Now() + kLongestSleep);
  pollfd wake = {.fd = wake_.fd(), .events = POLLIN, .revents = 0};
  if (poll(&wake, 1, base::PollTimeout(until)) > 0) wake_.Drain();
}

void Subscriber::Connect() {
  auto step = connector_.Step(base::Now() + kDeafest, wake_.fd());
  if (!step.ok()) {
    comeback_.Failed();
    return NotConnected(step.status());
  }
  if (!step->has_value()) return wake_.Drain();
  dialogue_ = std::move((*step)->dialogue);
  last_read_ = base::Now();
  comeback_.Made();
  {
    const base::MutexLock lock(mu_);
    for (const auto& [channel, subscription] : subscriptions_) {
      requests_.push_back({Verb::kSubscribe, subscription});
    }
    restoring_ = requests_.size();
    connected_ = true;
    peer_ = Peer{.target = std::move((*step)->target), .since = last_read_};
    ++stats_.connects;
  }
  if (restoring_ == 0) Restored();
}

void Subscriber::NotConnected(const absl::Status& why) {
  lost_ = true;
  {
    const base::MutexLock lock(mu_);
    last_failure_ = why;
    if (!absl::IsUnavailable(why)) {
      // Whoever waits hears it at once; those that nobody else counts on end with that.
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
  dialogue_ = Dialogue();
  {
    const base::MutexLock lock(mu_);
    ++stats_.breaks;
    connected_ = false;
    make_anew_ = false;
    ping_ = false;
    peer_.reset();
    std::move(requests_.begin(), requests_.end(), std::back_inserter(pending_));
    requests_.clear();
    for (const ChannelRequest& request : std::exchange(pending_, {})) {
      // With the connection the server's side of it is gone.
      if (request.verb == Verb::kUnsubscribe) {
        End(*request.subscription, request.subscription->end);
      }
    }
    for (const auto& [channel, subscription] : subscriptions_) {
      subscription->state = State::kAsked;
    }
  }
  NotConnected(
      absl::UnavailableError(absl::StrCat("lost the subscriptions at ", server_, ": ", why)));
  comeback_.Lost();
}

void Subscriber::Serve(base::Parker* guest, base::Instant deadline) {
  std::vector<ChannelRequest> requests;
  bool wanted = false;
  bool ping = false;
  {
    const base::MutexLock lock(mu_);
    ping = std::exchange(ping_, false);
    if (make_anew_) return Fail("a new connection was asked for");
    requests.swap(requests_);
    wanted = !subscriptions_.empty();
  }
  for (const ChannelRequest& request : requests) Ask(request);
  const base::Instant now = base::Now();
  if (pending_.empty() && wanted && (ping || last_read_ + options_.ping_interval <= now)) {
    Ask({Verb::kPing, nullptr});
  }
  if (!dialogue_.unwritten.empty()) dialogue_.transport->Verify();
  const Interest interest = dialogue_.Write() | dialogue_.read_wants;

  if (!wake_.OpenAgain(now)) return Fail("no file descriptor is left (raise ulimit -n)");
  base::Instant until = std::min(deadline, now + kLongestSleep);
  if (!dialogue_.unwritable.empty()) {
    until = now;  // what it said before is read
  } else if (!pending_.empty()) {
    until = std::min(until, last_read_ + options_.answer_timeout);
  } else if (wanted) {
    until = std::min(until, last_read_ + options_.ping_interval);
  }
  const Readiness ready =
      guest == nullptr ? WaitAsThread(interest, until) : WaitAsGuest(interest, until, *guest);
  if (ready.Meets(dialogue_.read_wants)) return ReadSome();
  if (!dialogue_.unwritable.empty()) return Fail(dialogue_.unwritable);
  if (!pending_.empty() && last_read_ + options_.answer_timeout <= base::Now()) {
    Fail("no answer within " + absl::FormatDuration(options_.answer_timeout));
  }
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

void Subscriber::Handle(const Reply& reply) {
  if (reply.elements.size() == 3 &&
      reply.elements[0].text == (options_.sharded ? "smessage" : "message")) {
    return HandleMessage(reply.elements[1].text, reply.elements[2].text);
  }
  if (IsLeftBehind(reply)) return LeaveBehind(reply.elements[1].text);
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
  comeback_.Heard(1);
  if (options_.on_message) options_.on_message(channel, message);
}

void Subscriber::HandleAnswer(const Reply& reply) {
  const ChannelRequest request = std::move(pending_.front());
  pending_.pop_front();
  if (request.verb == Verb::kPing) return;  // whatever it said, it is alive
  Subscription& subscription = *request.subscription;
  if (reply.is_error()) {
    const absl::Status why = ErrorStatus(reply.text, server_);
    const bool moved = RedirectOf(why).has_value();
    // Of this channel's slot alone.
    const bool unserved = options_.sharded && ClassifyError(reply.text) == ErrorCode::kClusterDown;
    if ((request.verb != Verb::kSubscribe && !moved) || (absl::IsUnavailable(why) && !unserved)) {
      return Fail(std::string(why.message()));
    }
    if (request.verb == Verb::kSubscribe) {
      Refuse(subscription, unserved ? MarkNotSent(why) : why);
    } else {  // it was left behind
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
      End(subscription, subscription.end);
    } else if (subscription.state == State::kAsked) {
      subscription.state = State::kLive;
      subscription.promised = true;
      changed_.SignalAll();
    }
  }
  if (restoring_ > 0 && --restoring_ == 0) Restored();
}

void Subscriber::Refuse(Subscription& subscription, const absl::Status& why) {
  bool unheard = false;
  {
    const base::MutexLock lock(mu_);
    unheard = subscription.promised && subscription.state == State::kAsked;
    End(subscription, why);
  }
  if (unheard && options_.on_refused) options_.on_refused(subscription.channel, why);
}

// A server from which a slot moves says so of each channel in it, unasked.
bool Subscriber::IsLeftBehind(const Reply& reply) const {
  if (!options_.sharded || reply.elements.size() != 3 || reply.elements[0].text != "sunsubscribe") {
    return false;
  }
  const bool asked = !pending_.empty() && pending_.front().verb == Verb::kUnsubscribe &&
                     pending_.front().subscription->channel == reply.elements[1].text;
  return !asked;
}

void Subscriber::LeaveBehind(const std::string& channel) {
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

// All is live that was subscribed when this connection was made.
void Subscriber::Restored() {
  {
    const base::MutexLock lock(mu_);
    if (peer_) peer_->since = base::Now();
  }
  comeback_.Heard(1);
  if (!std::exchange(lost_, false)) return;
  if (options_.on_live_again) options_.on_live_again();
}

}  // namespace redlatch::redis
