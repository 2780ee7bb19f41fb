// Waiting for what no event tells of.
#ifndef REDLATCH_TESTS_SUPPORT_AWAIT_H_
#define REDLATCH_TESTS_SUPPORT_AWAIT_H_

#include <chrono>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::support {

// Until `condition` holds; false if it still does not when `patience` is over.
inline bool Await(const std::function<bool()>& condition,
                  absl::Duration patience = absl::Seconds(10)) {
  const base::Instant until = base::Now() + patience;
  while (!condition()) {
    if (until <= base::Now()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Where the passing of time is what is tested; it stands for no event.
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
