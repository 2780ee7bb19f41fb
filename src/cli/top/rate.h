#ifndef REDLATCH_SRC_CLI_TOP_RATE_H_
#define REDLATCH_SRC_CLI_TOP_RATE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/cli/inspect/inspect.h"

namespace redlatch::cli {

// Measures how often a lock is granted. Its largest token, which is the time of its last grant, is
// read again and again. A reading shows at most one grant since the one before, so the number of
// changes is too small for a fast lock; but the age of its last grant is half the time between two
// grants, on average.
class Rate {
 public:
  void Take(const LastGrant& grant, base::Instant now) {
    if (grant.now_us == 0 || grant.token == 0) return;
    if (token_ != 0) {
      const absl::Duration age = absl::Microseconds(grant.now_us - grant.token);
      ++readings_;
      changes_ += grant.token == token_ ? 0 : 1;
      seconds_ += absl::ToDoubleSeconds(now - read_at_);
      ages_ += std::max(0.0, absl::ToDoubleSeconds(age));
      // Its client has reserved tokens for its own threads: the last grant is older than the token.
      ahead_ += age < absl::ZeroDuration() ? 1 : 0;
    }
    token_ = grant.token;
    read_at_ = now;
  }

  // -1: unknown.
  double PerSecond() const {
    if (seconds_ <= 0) return -1;
    const double seen = changes_ / seconds_;
    const bool misses_some = changes_ > 0.7 * readings_ && ages_ > 0 && ahead_ < 0.3 * readings_;
    return misses_some ? std::max(seen, readings_ / (2 * ages_)) : seen;
  }

  // Lets earlier readings count less.
  void Age() {
    for (double* const each : {&readings_, &changes_, &seconds_, &ages_, &ahead_}) *each *= 0.7;
  }

 private:
  int64_t token_ = 0;  // of the last reading; 0: there was none
  base::Instant read_at_;
  double readings_ = 0, changes_ = 0, seconds_ = 0, ages_ = 0, ahead_ = 0;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TOP_RATE_H_
