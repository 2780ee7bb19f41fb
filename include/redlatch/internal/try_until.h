// The std interfaces' calls with a deadline.
#ifndef REDLATCH_INTERNAL_TRY_UNTIL_H_
#define REDLATCH_INTERNAL_TRY_UNTIL_H_

#include <chrono>
#include <optional>

#include "absl/time/time.h"
#include "redlatch/duration.h"

namespace redlatch::internal {

// How long it is until `deadline`; zero if it has passed. Deadlines more than a hundred years away
// do not overflow.
template <class Clock, class Span>
absl::Duration Until(const std::chrono::time_point<Clock, Span>& deadline) {
  using Seconds = std::chrono::duration<double>;
  const auto now = Clock::now();
  const Duration about = Seconds(deadline.time_since_epoch()) - Seconds(now.time_since_epoch());
  if (about == absl::InfiniteDuration()) return absl::InfiniteDuration();
  if (about == -absl::InfiniteDuration() || deadline <= now) return absl::ZeroDuration();
  return Duration(deadline - now);
}

// Calls `attempt` with the time that is left until `deadline`, and again until the deadline's
// clock, which may be slow, has reached it. An attempt that returns no value was refused: waiting
// would not help.
template <class Clock, class Span, class Attempt>
bool TryUntil(const std::chrono::time_point<Clock, Span>& deadline, Attempt attempt) {
  absl::Duration left = Until(deadline);
  while (true) {
    const std::optional<bool> tried = attempt(left);
    if (!tried.has_value() || *tried) return tried.has_value();
    left = Until(deadline);
    if (left <= absl::ZeroDuration()) return false;
  }
}

}  // namespace redlatch::internal

#endif  // REDLATCH_INTERNAL_TRY_UNTIL_H_
