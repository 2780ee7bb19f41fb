// How the std faces read the durations of std::chrono. Not for users.
#ifndef REDLATCH_FROM_STD_H_
#define REDLATCH_FROM_STD_H_

#include <chrono>
#include <optional>

#include "absl/time/time.h"

namespace redlatch::internal {

// About as many seconds. Unlike a comparison with another unit it does not overflow.
using Seconds = std::chrono::duration<double>;
inline constexpr Seconds kForEver = std::chrono::hours(24 * 365 * 100);

// How long to wait: none where it is negative or no number, for ever from a hundred years on.
template <class Rep, class Period>
absl::Duration FromStd(const std::chrono::duration<Rep, Period>& wait) {
  const Seconds about(wait);
  if (!(about > about.zero())) return absl::ZeroDuration();
  if (about >= kForEver) return absl::InfiniteDuration();
  return absl::FromChrono(std::chrono::ceil<std::chrono::nanoseconds>(wait));
}

template <class Clock, class Duration>
absl::Duration UntilStd(const std::chrono::time_point<Clock, Duration>& deadline) {
  const auto now = Clock::now();
  const Seconds about = Seconds(deadline.time_since_epoch()) - Seconds(now.time_since_epoch());
  if (about >= kForEver) return absl::InfiniteDuration();
  if (about <= -kForEver) return absl::ZeroDuration();
  return deadline <= now ? absl::ZeroDuration() : FromStd(deadline - now);
}

// Calls `attempt` with the time that is left until `deadline`, and again until its clock, which may
// be slow, has reached it. An attempt that returns no value was refused: waiting would not help.
template <class Clock, class Duration, class Attempt>
bool TryUntil(const std::chrono::time_point<Clock, Duration>& deadline, Attempt attempt) {
  absl::Duration left = UntilStd(deadline);
  while (true) {
    const std::optional<bool> tried = attempt(left);
    if (!tried.has_value() || *tried) return tried.has_value();
    left = UntilStd(deadline);
    if (left <= absl::ZeroDuration()) return false;
  }
}

}  // namespace redlatch::internal

#endif  // REDLATCH_FROM_STD_H_
