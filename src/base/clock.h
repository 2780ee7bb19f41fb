// The one clock of redlatch: CLOCK_BOOTTIME. It is steady, and unlike CLOCK_MONOTONIC it goes on
// while the machine sleeps, so that a lease that ended during a suspend is over on waking.
#ifndef REDLATCH_SRC_BASE_CLOCK_H_
#define REDLATCH_SRC_BASE_CLOCK_H_

#include <compare>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace redlatch::base {

// A point on the steady clock, in nanoseconds since boot. Every local deadline is one.
class Instant {
 public:
  constexpr Instant() = default;
  static constexpr Instant FromNanos(int64_t nanos) { return Instant(nanos); }
  static constexpr Instant Infinite() { return Instant(std::numeric_limits<int64_t>::max()); }

  constexpr int64_t nanos() const { return nanos_; }
  constexpr bool is_infinite() const { return nanos_ == std::numeric_limits<int64_t>::max(); }

  friend constexpr auto operator<=>(Instant, Instant) = default;

  // Saturates: anything plus absl::InfiniteDuration() is Infinite().
  friend Instant operator+(Instant at, absl::Duration d);
  friend Instant operator-(Instant at, absl::Duration d) { return at + -d; }
  friend absl::Duration operator-(Instant a, Instant b);

 private:
  explicit constexpr Instant(int64_t nanos) : nanos_(nanos) {}
  int64_t nanos_ = 0;
};

Instant Now();

// What is left until `deadline`; zero when it has passed.
absl::Duration Until(Instant deadline);

// The same in whole milliseconds, rounded up, for poll(2); -1 for an infinite deadline.
int PollTimeout(Instant deadline);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_CLOCK_H_
