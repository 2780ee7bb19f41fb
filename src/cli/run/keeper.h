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
#ifndef REDLATCH_SRC_CLI_RUN_KEEPER_H_
#define REDLATCH_SRC_CLI_RUN_KEEPER_H_

#include <signal.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "redlatch/observer.h"
#include "src/base/clock.h"
#include "src/base/wake_event.h"
#include "src/cli/run/hold.h"

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

class Notices : public Observer {
 public:
  Notices() { event_.Open(); }

  int fd() const { return event_.fd(); }  // can be read when something has happened; -1: none
  void Nudge() const { event_.Signal(); }
  void Clear() { event_.Drain(); }

  // The stop token fires a moment before it is told why.
  bool loss_told() const { return loss_told_; }

  // Why the lock was lost or is about to be, as far as it was told.
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_.empty() ? "the server did not answer, or this process was not running" : why_;
  }

 private:
  void OnRenewed(std::string_view, FencingToken) override { Nudge(); }
  void OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status& why) override {
    Set(std::string(why.message()));
  }
  void OnRecovered(std::string_view, FencingToken) override { Set({}); }
  void OnLost(const LostLease& lost) override {
    Set(lost.reason);
    loss_told_ = true;
    Nudge();
  }
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}  // the keeper says so
  void OnMisuse(std::string_view, std::string_view) override {}

  void Set(std::string why) {
    {
      const std::lock_guard lock(mutex_);
      why_ = std::move(why);
    }
    Nudge();
  }

  base::WakeEvent event_;
  std::atomic<bool> loss_told_ = false;
  mutable std::mutex mutex_;
  std::string why_;
};

struct KeeperTask {
  const RunOptions& options;
  const sigset_t& mask;  // that the command is to have; every signal is blocked now
  bool own_group;        // for the command
  int link;              // to the front: Forwarded comes in, a byte goes out when `watch` is set
  Watch* watch;
};

// The keeper's whole life, from the lock to the release. It ends with the exit code of
// `redlatch run`.
[[noreturn]] void RunKeeper(const KeeperTask& task);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_KEEPER_H_
