#include "src/redis/server_group/subscription_check.h"

#include <utility>

namespace redlatch::redis {

SubscriptionCheck::Verdict SubscriptionCheck::Told(bool has_subscriber, base::Instant sent,
                                                   base::Instant live, base::Instant now) {
  if (has_subscriber) {
    times_ = rounds_ = 0;
    backoff_.Reset();
    return std::exchange(unsubscribed_, false) ? Verdict::kSubscribedAgain : Verdict::kNothingNew;
  }
  // Not before the server can know, and not for each of many waiters.
  if (sent < live || (times_ > 0 && sent < counted_ + kApart)) return Verdict::kNothingNew;
  counted_ = sent;
  if (unsubscribed_ && now < next_try_) return Verdict::kNothingNew;
  if (!unsubscribed_ && ++times_ < kTimes) return Verdict::kNothingNew;
  times_ = 0;
  if (unsubscribed_ || ++rounds_ < kRounds) {
    next_try_ = now + backoff_.Next();
    return Verdict::kMakeAnew;
  }
  unsubscribed_ = true;
  backoff_.Reset();
  next_try_ = now + backoff_.Next();
  return Verdict::kUnsubscribed;
}

}  // namespace redlatch::redis
