// A process forks while one of its threads is in the middle of something, which the child never
// finishes. Here a thread is halted at each allocation and each release of memory in turn, the
// process forks, and the child destroys the objects that the thread was using. (This program's
// operator new and delete call Step().)
#ifndef REDLATCH_TESTS_REDIS_MEMORY_FORK_SWEEP_H_
#define REDLATCH_TESTS_REDIS_MEMORY_FORK_SWEEP_H_

#include <sys/prctl.h>

#include <cstring>

#include "tests/support/live_testing.h"

namespace redlatch {

enum Halt : int { kNone, kHalted, kGoOn };
inline thread_local int steps_left = -1;  // of this thread until it is halted; -1: it is not halted
inline std::atomic<int> halt{kNone};

// Counts the steps of all threads of that name together.
inline std::atomic<const char*> sweep_name{nullptr};
inline std::atomic<int> named_steps_left{-1};

inline bool IsNamed(const char* name) {
  char own[16] = "";
  prctl(PR_GET_NAME, own);
  return std::strcmp(own, name) == 0;
}

inline void Step() {
  if (const char* const name = sweep_name; name != nullptr && IsNamed(name)) {
    if (named_steps_left-- != 0) return;
  } else if (steps_left < 0 || steps_left-- > 0) {
    return;
  }
  int none = kNone;
  if (!halt.compare_exchange_strong(none, kHalted)) return;  // the run is over
  halt.notify_all();
  halt.wait(kHalted);
}

// `act` sets `steps_left` of some thread, or `named_steps_left`, to its argument, and returns when
// that thread has finished. Returns how often a thread was halted.
inline int Sweep(const std::function<void()>& prepare, const std::function<void(int)>& act,
                 const std::function<void()>& destroy) {
  for (int steps = 0;; ++steps) {
    prepare();
    halt = kNone;
    std::thread actor([&] {
      act(steps);
      int none = kNone;
      halt.compare_exchange_strong(none, kGoOn);
      halt.notify_all();
    });
    halt.wait(kNone);
    const bool halted = halt == kHalted;
    const auto child = [&] {
      destroy();
      return 0;
    };
    EXPECT_EQ(halted ? support::CodeOfFork(child) : 0, 0) << "halted at step " << steps;
    halt = kGoOn;
    halt.notify_all();
    actor.join();
    if (!halted || ::testing::Test::HasFailure()) return steps;
  }
}

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_MEMORY_FORK_SWEEP_H_
