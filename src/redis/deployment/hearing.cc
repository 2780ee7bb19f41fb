#include "src/redis/deployment/hearing.h"

#include <utility>

namespace redlatch::redis {

Hearing::Verdict Hearing::Told(bool has_subscriber, base::Instant sent, base::Instant live,
                               base::Instant now) {
  if (has_subscriber) {
    times_ = rounds_ = 0;
    backoff_.Reset();
    return std::exchange(deaf_, false) ? Verdict::kHearsAgain : Verdict::kNothingNew;
  }
  // Not before the server can know, and not for each of many waiters.
  if (sent < live || (times_ > 0 && sent < counted_ + kApart)) return Verdict::kNothingNew;
  counted_ = sent;
  if (deaf_ && now < next_try_) return Verdict::kNothingNew;
  if (!deaf_ && ++times_ < kTimes) return Verdict::kNothingNew;
  times_ = 0;
  if (deaf_ || ++rounds_ < kRounds) {
    next_try_ = now + backoff_.Next();
    return Verdict::kMakeAnew;
  }
  deaf_ = true;
  backoff_.Reset();
  next_try_ = now + backoff_.Next();
  return Verdict::kDeaf;
}

}  // namespace redlatch::redis
