#include "src/base/clock.h"

#include <time.h>

#include <algorithm>
#include <limits>

namespace redlatch::base {

Instant operator+(Instant at, absl::Duration d) {
  if (at.is_infinite() || d == absl::InfiniteDuration()) return Instant::Infinite();
  const int64_t nanos = absl::ToInt64Nanoseconds(d);  // saturates
  int64_t sum = 0;
  if (__builtin_add_overflow(at.nanos_, nanos, &sum)) {
    return nanos > 0 ? Instant::Infinite() : Instant(std::numeric_limits<int64_t>::min());
  }
  return Instant(sum);
}

absl::Duration operator-(Instant a, Instant b) {
  if (a.is_infinite() && !b.is_infinite()) return absl::InfiniteDuration();
  if (b.is_infinite() && !a.is_infinite()) return -absl::InfiniteDuration();
  return absl::Nanoseconds(a.nanos_) - absl::Nanoseconds(b.nanos_);
}

Instant Now() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return Instant::FromNanos(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

absl::Duration Until(Instant deadline) { return std::max(deadline - Now(), absl::ZeroDuration()); }

int PollTimeout(Instant deadline) {
  if (deadline.is_infinite()) return -1;
  const Instant now = Now();
  if (deadline <= now) return 0;
  const int64_t left = deadline.nanos() - now.nanos();
  constexpr int64_t kLongest = 3'600'000;  // whoever polls looks at the clock again afterwards
  return static_cast<int>(std::min<int64_t>((left - 1) / 1'000'000 + 1, kLongest));
}

}  // namespace redlatch::base
