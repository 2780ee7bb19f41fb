// A latch for threads, processes and hosts: it opens at a number of arrivals, and stays open.
#ifndef REDLATCH_COUNT_DOWN_LATCH_H_
#define REDLATCH_COUNT_DOWN_LATCH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/awaitable.h"
#include "redlatch/client.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/internal/options_view.h"
#include "redlatch/internal/try_until.h"

namespace redlatch {

struct LatchOptions {
  // How long the server remembers the latch, open or closed, after its last use. A wait is a use. 1
  // s to one year. If objects have different values, a shorter one never reduces the time that is
  // left.
  Duration ttl = absl::Hours(24);
};

struct LatchWaitOptions {
  // How long to wait. With zero, the call only asks whether the latch is open.
  Duration wait = absl::InfiniteDuration();
  // Ends the waiting with kCancelled.
  std::stop_token stop = {};
};

// See AcquireOptionsView.
struct LatchWaitOptionsView {
  Duration wait = absl::InfiniteDuration();
  internal::Given<std::stop_token> stop = {};

  operator LatchWaitOptions() const {  // NOLINT(google-explicit-constructor)
    return {.wait = wait, .stop = stop};
  }
};

// Works like std::latch, across processes.
//
//   redlatch::CountDownLatch done(client, "import:2026-11-20", 12);
//   done.count_down();   // each of twelve workers, when it has finished
//   done.wait();         // whichever process continues from there
//
//   the latch is      count_down(n)                   wait()          try_wait()
//   not there yet     the first use of an object makes it             false
//   closed, m to go   counts; opens it at zero        waits           false
//   open              refused, unless n is 0          returns         true
//   gone              kAborted                        kAborted        kAborted
//
// The first object that uses a name makes the latch with its count, 0 to 10^15. Further objects
// join it, and must have the same count (kFailedPrecondition, which names both).
//
// The latch is gone for an object if it has vanished since the object's first use: it was forgotten
// after its `ttl`, or the server lost its data. Its counts are then lost. Waiters learn this at
// their next heartbeat (a third of `ttl`, 10 s at most). A new object makes the latch again. After
// a failover, clients repeat counts that the new server may not have received; if a client with
// such counts is missing for longer than 30 s (or `ttl`), the latch is gone.
//
// If the answer to a count_down() is lost, the client sends it again, and it counts once.
// count_down() and wait() try to reach a server for the client's `unreachable_after`. No thread
// holds a latch, so it causes no events of an Observer. Constructors do no I/O and never fail.
//
// Thread-safe; neither copied nor moved. It may be destroyed while other threads wait in it: their
// calls end with kCancelled.
class REDLATCH_EXPORT CountDownLatch {
 public:
  CountDownLatch(const Client& client, std::string_view name, int64_t count,
                 LatchOptions options = {});
  ~CountDownLatch();
  CountDownLatch(const CountDownLatch&) = delete;
  CountDownLatch& operator=(const CountDownLatch&) = delete;

  // These work like those of std::latch. Errors are thrown: std::system_error with a code of
  // redlatch::error_category().
  void count_down(std::ptrdiff_t n = 1);
  void wait();
  // The server has the `command_timeout` (1 s) to answer.
  bool try_wait() { return WaitFor(absl::ZeroDuration()); }
  // These return at most 50 ms after the end of the wait.
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& wait) {
    return WaitFor(Duration(wait));
  }
  template <class Clock, class Span>
  bool wait_until(const std::chrono::time_point<Clock, Span>& deadline) {
    return internal::TryUntil(deadline, [this](absl::Duration left) { return WaitFor(left); });
  }
  void arrive_and_wait(std::ptrdiff_t n = 1);

  // Wait(), CountDown() and Count() return:
  //   kDeadlineExceeded     Wait: closed for as long as `wait`
  //   kCancelled            Wait: `stop` fired, or the object was destroyed
  //   kUnavailable          the server cannot be reached, or did not answer in time. A CountDown()
  //                         may have counted: if that matters, give it an id and repeat it
  //   kAborted              the latch is gone
  //   kFailedPrecondition   it has another count, is not a latch, or has less than `n` to go (and
  //                         the id has not counted already)
  //   kInvalidArgument      a bad name, count or option
  //   kPermissionDenied, kResourceExhausted, kInternal    as RedisLockBase::Acquire()
  absl::Status Wait(const LatchWaitOptions& options = {});
  // As RedisLockBase::AcquireAsync().
  using WaitCallback = absl::AnyInvocable<void(absl::Status) &&>;
  void WaitAsync(const LatchWaitOptions& options, WaitCallback callback);
  template <internal::AwaitableAs<LatchWaitOptions> Options = LatchWaitOptionsView>
  Awaitable<absl::Status> WaitAwaitable(Options&& options = {}) {
    return {options.stop, [this, its = LatchWaitOptions(options)](std::stop_token both,
                                                                  WaitCallback told) mutable {
              its.stop = std::move(both);
              WaitAsync(its, std::move(told));
            }};
  }
  // `id` names the arrival, such as a job that may run again after a crash. All calls with the same
  // id, on any object and from any process, count once in total. Each call without an id counts.
  absl::Status CountDown(int64_t n = 1, std::string_view id = {});
  // Asks the server how many are still to arrive; 0: open.
  absl::StatusOr<int64_t> Count();

  const std::string& name() const;

 private:
  bool WaitFor(absl::Duration wait);

  class Body;
  const std::shared_ptr<Body> body_;
};

}  // namespace redlatch

#endif  // REDLATCH_COUNT_DOWN_LATCH_H_
