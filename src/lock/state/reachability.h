#ifndef REDLATCH_SRC_LOCK_STATE_REACHABILITY_H_
#define REDLATCH_SRC_LOCK_STATE_REACHABILITY_H_

#include <algorithm>

#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/base/status.h"

namespace redlatch::internal {

// Since when, and why, the server has not answered.
class Reachability {
 public:
  // Returns true if a request went unanswered and none has been answered since.
  bool silent() const { return !since_.is_infinite(); }
  // REQUIRES: silent().
  base::Instant since() const { return since_; }
  const absl::Status& why() const { return why_; }

  void Answered(base::Instant now) {
    since_ = base::Instant::Infinite();
    answered_at_ = now;
  }
  void Unanswered(base::Instant since, const absl::Status& why) {
    why_ = base::Unshared(why);
    if (!silent()) since_ = since;
  }
  // No caller waits for the server any more.
  void Forget() { since_ = base::Instant::Infinite(); }

  // A silence that a waiter met elsewhere, or Infinite() if the server has answered here since.
  base::Instant Since(base::Instant met) const {
    return answered_at_ < met ? met : base::Instant::Infinite();
  }

 private:
  base::Instant since_ = base::Instant::Infinite();
  base::Instant answered_at_;  // when the server last answered
  absl::Status why_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_REACHABILITY_H_
