#include "src/base/clock.h"

#include <time.h>

#include "src/base/no_cancellation.h"

namespace redlatch::base {

Instant Now() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return Instant::FromNanos(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

int PollTimeout(Instant deadline) {
  if (deadline.is_infinite()) return -1;
  return static_cast<int>((absl::ToInt64Nanoseconds(SleepUntil(deadline)) + 999'999) / 1'000'000);
}

int Poll(pollfd* fds, size_t count, Instant deadline) {
  const NoCancellation no_cancellation;
  for (;;) {
    const int ready = poll(fds, count, PollTimeout(deadline));
    if (ready != 0 || deadline <= Now()) return ready;
  }
}

}  // namespace redlatch::base
