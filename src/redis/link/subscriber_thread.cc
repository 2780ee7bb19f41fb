// What the reader of a subscriber does; what its callers do is in subscriber.cc.
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

}  // namespace

Awaited Subscriber::Turn(const Readiness& ready, int wake_fd) {
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
      if (base::Now() < comeback_.next_attempt()) return {.until = comeback_.next_attempt()};
      if (const std::optional<Awaited> awaited = Connect(wake_fd)) return *awaited;
    }
    const Awaited next = Prepare(base::Instant::Infinite());
    if (broken_) continue;
    const base::MutexLock lock(mu_);
    relievable_ = true;
    return next;
  }
}

// Nothing where it is done.
std::optional<Awaited> Subscriber::Connect(int wake_fd) {
  Awaited awaited{.until = base::Instant()};  // as long as nobody else wants a turn
  auto step =
      wake_fd >= 0 ? connector_.Step(base::Now() + kDeafest, wake_fd) : connector_.Poll(&awaited);
  if (!step.ok()) {
    comeback_.Failed();
    NotConnected(step.status());
    return Awaited{.until = comeback_.next_attempt()};
  }
  if (!step->has_value()) return awaited;
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
  return std::nullopt;
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

Awaited Subscriber::Prepare(base::Instant deadline) {
  std::vector<ChannelRequest> requests;
  bool wanted = false;
  bool ping = false;
  {
    const base::MutexLock lock(mu_);
    ping = std::exchange(ping_, false);
    if (make_anew_) {
      Fail("a new connection was asked for");
      return {};
    }
    requests.swap(requests_);
    wanted = !subscriptions_.empty();
  }
  for (const ChannelRequest& request : requests) Ask(request);
  const base::Instant now = base::Now();
  if (pending_.empty() && wanted && (ping || last_read_ + options_.ping_interval <= now)) {
    Ask({Verb::kPing, nullptr});
  }
  if (!dialogue_.unwritten.empty()) dialogue_.transport->Verify();
  Awaited awaited{.transport = dialogue_.transport.get(),
                  .interest = dialogue_.Write() | dialogue_.read_wants,
                  .until = deadline};
  if (!dialogue_.unwritable.empty()) {
    awaited.until = now;  // what it said before is read
  } else if (!pending_.empty()) {
    awaited.until = std::min(deadline, last_read_ + options_.answer_timeout);
  } else if (wanted) {
    awaited.until = std::min(deadline, last_read_ + options_.ping_interval);
  }
  return awaited;
}

void Subscriber::Take(const Readiness& ready) {
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
