// Waits for conditions for which there is no event.
#ifndef REDLATCH_TESTS_SUPPORT_AWAIT_H_
#define REDLATCH_TESTS_SUPPORT_AWAIT_H_

#include <chrono>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::support {

// Waits until `condition` holds. Returns false if it does not hold within `timeout`.
inline bool Await(const std::function<bool()>& condition,
                  absl::Duration timeout = absl::Seconds(10)) {
  const base::Instant until = base::Now() + timeout;
  while (!condition()) {
    if (until <= base::Now()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Only for tests of the passing of time. Do not use it in place of an event.
inline void Sleep(absl::Duration time) {
  std::this_thread::sleep_for(absl::ToChronoNanoseconds(time));
}

template <class Call>
absl::Duration TimeOf(Call call) {
  const base::Instant began = base::Now();
  call();
  return base::Now() - began;
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_AWAIT_H_
