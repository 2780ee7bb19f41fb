#ifndef REDLATCH_SRC_QUORUM_TOKEN_CLOCK_H_
#define REDLATCH_SRC_QUORUM_TOKEN_CLOCK_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"

namespace redlatch::quorum {

// The token that is proposed to all nodes, so that they answer one and the same: somewhat beyond
// what the clock of any says by the time at which it is asked. Thread-safe.
class TokenClock {
 public:
  // What a node's clock said, in an answer to a round that began then. No token is noted: one that
  // is ahead of all clocks is followed by the next number, on whichever node.
  void Note(int64_t clock_us, base::Instant asked, base::Instant now) {
    const base::MutexLock lock(mu_);
    const int64_t elapsed = absl::ToInt64Microseconds(now - at_);
    latest_ = std::max(latest_ + elapsed, clock_us);
    at_ = now;
    round_us_ = (3 * round_us_ + absl::ToInt64Microseconds(now - asked)) / 4;
  }

  // 0: nothing is known yet.
  int64_t Propose(base::Instant now) const {
    const base::MutexLock lock(mu_);
    if (latest_ == 0) return 0;
    // Twice as long as a round takes; a millisecond at most.
    const int64_t lead = std::clamp<int64_t>(2 * round_us_, 100, 1000);
    return latest_ + absl::ToInt64Microseconds(now - at_) + lead;
  }

 private:
  mutable base::Mutex mu_;
  int64_t latest_ ABSL_GUARDED_BY(mu_) = 0;
  base::Instant at_ ABSL_GUARDED_BY(mu_);
  int64_t round_us_ ABSL_GUARDED_BY(mu_) = 300;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_TOKEN_CLOCK_H_
