// What the server says to a subscriber: answers, and messages.
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

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
