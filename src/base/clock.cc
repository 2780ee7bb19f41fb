#include "src/base/clock.h"

#include <time.h>

#include <algorithm>

#include "src/base/no_cancellation.h"

namespace redlatch::base {

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

int Poll(pollfd* fds, size_t count, Instant deadline) {
  const NoCancellation no_cancellation;
  return poll(fds, count, PollTimeout(deadline));
}

}  // namespace redlatch::base
