// A span of time in options and arguments: std::chrono's or absl's.
#ifndef REDLATCH_DURATION_H_
#define REDLATCH_DURATION_H_

#include <chrono>

#include "absl/time/time.h"

namespace redlatch {

// Converts from std::chrono and from absl::Duration, and to absl::Duration:
//
//   using namespace std::chrono_literals;
//   lock.Acquire({.wait = 5s});
//   lock.Acquire({.wait = absl::Seconds(5)});
//
// A std::chrono duration is rounded up to nanoseconds. A hundred years or more become
// absl::InfiniteDuration(), and a duration that is not a number becomes zero.
class Duration {
 public:
  constexpr Duration() = default;  // zero
  // NOLINTBEGIN(google-explicit-constructor)
  constexpr Duration(absl::Duration value) : value_(value) {}
  template <class Rep, class Period>
  Duration(const std::chrono::duration<Rep, Period>& value) : value_(FromStd(value)) {}

  constexpr operator absl::Duration() const { return value_; }
  // NOLINTEND(google-explicit-constructor)

 private:
  template <class Rep, class Period>
  static absl::Duration FromStd(const std::chrono::duration<Rep, Period>& value) {
    // Seconds as a double cannot overflow, as a comparison with another unit could.
    using Seconds = std::chrono::duration<double>;
    constexpr Seconds kForEver = std::chrono::hours(24 * 365 * 100);
    const Seconds about(value);
    if (about >= kForEver) return absl::InfiniteDuration();
    if (about <= -kForEver) return -absl::InfiniteDuration();
    if (!(about > about.zero()) && !(about < about.zero())) return absl::ZeroDuration();
    return absl::FromChrono(std::chrono::ceil<std::chrono::nanoseconds>(value));
  }

  absl::Duration value_;
};

}  // namespace redlatch

#endif  // REDLATCH_DURATION_H_
