// The one clock of redlatch: CLOCK_BOOTTIME. It is steady, and unlike CLOCK_MONOTONIC it goes on
// while the machine sleeps, so that a lease that ended during a suspend is over on waking.
#ifndef REDLATCH_SRC_BASE_CLOCK_H_
#define REDLATCH_SRC_BASE_CLOCK_H_

#include <poll.h>

#include <algorithm>
#include <compare>
#include <cstddef>
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

  // These saturate: anything plus absl::InfiniteDuration() is Infinite().
  friend Instant operator+(Instant at, absl::Duration d) {
    int64_t sum = 0;
    if (at.is_infinite() || d == absl::InfiniteDuration()) return Infinite();
    if (!__builtin_add_overflow(at.nanos_, NanosOf(d), &sum)) return Instant(sum);
    return d > absl::ZeroDuration() ? Infinite() : Earliest();
  }
  friend Instant operator-(Instant at, absl::Duration d) {
    int64_t difference = 0;
    if (at.is_infinite() || d == -absl::InfiniteDuration()) return Infinite();
    if (!__builtin_sub_overflow(at.nanos_, NanosOf(d), &difference)) return Instant(difference);
    return d < absl::ZeroDuration() ? Infinite() : Earliest();
  }
  friend absl::Duration operator-(Instant a, Instant b) {
    int64_t difference = 0;
    if (a.is_infinite() != b.is_infinite()) {
      return a.is_infinite() ? absl::InfiniteDuration() : -absl::InfiniteDuration();
    }
    if (!__builtin_sub_overflow(a.nanos_, b.nanos_, &difference)) {
      return absl::Nanoseconds(difference);
    }
    return absl::Nanoseconds(a.nanos_) - absl::Nanoseconds(b.nanos_);
  }

 private:
  explicit constexpr Instant(int64_t nanos) : nanos_(nanos) {}
  static constexpr Instant Earliest() { return Instant(std::numeric_limits<int64_t>::min()); }

  // absl's conversion of a negative duration is slow: it divides numbers of 128 bits.
  static int64_t NanosOf(absl::Duration d) {
    return d < absl::ZeroDuration() ? -absl::ToInt64Nanoseconds(-d) : absl::ToInt64Nanoseconds(d);
  }

  int64_t nanos_ = 0;
};

Instant Now();

// Returns the time until `deadline`; zero if it has passed.
inline absl::Duration Until(Instant deadline) {
  return std::max(deadline - Now(), absl::ZeroDuration());
}

// A thread checks the clock this often while it sleeps in the kernel. The kernel's timers stop
// while the machine is suspended, so a thread that sleeps longer would notice too late that a
// deadline passed meanwhile.
inline constexpr absl::Duration kLongestSleep = absl::Milliseconds(500);
inline absl::Duration SleepUntil(Instant deadline) {
  return std::min(Until(deadline), kLongestSleep);
}

// SleepUntil() in whole milliseconds, rounded up, for poll(2); -1 for an infinite deadline.
int PollTimeout(Instant deadline);

// Calls poll(2) until `deadline`. It is not a cancellation point.
int Poll(pollfd* fds, size_t count, Instant deadline);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_CLOCK_H_
