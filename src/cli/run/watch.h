// What the two processes of `redlatch run` share.
//
//   front    the one that was started, of a single thread: forwards signals, takes the terminal's
//            stops and interruptions, exits with the command's code
//   keeper   its child, in a process group of its own: has the lock, and the command as its child
//
// Two, so that either sees to it that the command ends where the other can't: the front is the
// parent of whatever the keeper leaves, and kills the command when the lease ends though the keeper
// should hang; the keeper goes on renewing the lock while the front is stopped by ^Z, and ends the
// command and releases the lock where the front is killed.
#ifndef REDLATCH_SRC_CLI_RUN_WATCH_H_
#define REDLATCH_SRC_CLI_RUN_WATCH_H_

#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/clock.h"

namespace redlatch::cli {

// A descriptor that can be read from a moment on.
class Alarm {
 public:
  Alarm() : fd_(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {}
  ~Alarm() { close(fd_); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  int fd() const { return fd_; }
  void Set(base::Instant at) {
    itimerspec when = {};
    if (!at.is_infinite()) {
      const int64_t some = std::max<int64_t>(at.nanos(), 1);  // zero would mean never
      when.it_value = {.tv_sec = some / 1'000'000'000, .tv_nsec = some % 1'000'000'000};
    }
    timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
  }

 private:
  const int fd_;
};

inline constexpr pid_t kReaped = -1;  // its number may be another's by now

// In memory that both have.
struct Watch {
  // When the command must be gone: the lease's end as this client counts it, which is before the
  // server gives the lock to another. Renewals move it.
  std::atomic<base::Instant> deadline{base::Instant::Infinite()};
  std::atomic<pid_t> command{0};  // 0: not started; or kReaped
};
static_assert(std::atomic<base::Instant>::is_always_lock_free);

// From the front to the keeper.
struct Forwarded {
  int32_t signal = 0;
  bool command_has_it = false;  // the terminal has sent it to the command too
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_WATCH_H_
