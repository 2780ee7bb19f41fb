#ifndef REDLATCH_SRC_QUORUM_TOKEN_CLOCK_H_
#define REDLATCH_SRC_QUORUM_TOKEN_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"

namespace redlatch::quorum {

// The token that is proposed to all nodes, so that they all answer the same one: somewhat beyond
// what any node's clock says when the node is asked. Thread-safe.
class TokenClock {
 public:
  // Notes what the clocks of nodes said in answers that are in by now. It notes no token: a token
  // that is ahead of all clocks is followed by the next number on any node. Nor does it note a
  // clock that is a second ahead of most: the other nodes would not accept a token by it.
  void Note(std::vector<int64_t> clocks_us, bool of_majority, base::Instant now) {
    if (clocks_us.empty()) return;
    const base::MutexLock lock(mu_);
    std::sort(clocks_us.begin(), clocks_us.end());
    const int64_t predicted = latest_ + absl::ToInt64Microseconds(now - at_);
    const int64_t middle = clocks_us[(clocks_us.size() - 1) / 2];
    const int64_t farthest = (of_majority || latest_ == 0 ? middle : predicted) + kFar;
    int64_t latest = latest_ > 0 && predicted <= farthest ? predicted : 0;
    for (const int64_t clock : clocks_us) {
      if (clock <= farthest) latest = std::max(latest, clock);
    }
    if (latest == 0) return;
    latest_ = latest;
    at_ = now;
  }

  // Returns 0 if nothing is known yet.
  int64_t Propose(base::Instant now) const {
    const base::MutexLock lock(mu_);
    if (latest_ == 0) return 0;
    return latest_ + absl::ToInt64Microseconds(now - at_) + kLead;
  }

 private:
  static constexpr int64_t kFar = 1'000'000;
  // Longer than a request takes to reach a node: a node whose clock is past the proposal answers
  // another token. All clients use the same value, so that a later client proposes more.
  static constexpr int64_t kLead = 1000;

  mutable base::Mutex mu_;
  int64_t latest_ ABSL_GUARDED_BY(mu_) = 0;
  base::Instant at_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_TOKEN_CLOCK_H_
