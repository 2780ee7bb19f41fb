// A latch for threads, processes and hosts: it opens when so many have arrived, and stays open.
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
#include "redlatch/internal/try_until.h"

namespace redlatch {

struct LatchOptions {
  // How long the latch is remembered after the last time that anybody touched it, open or not. Who
  // waits touches it. 1 s to one year; where objects differ, what is left is never shortened.
  Duration ttl = absl::Hours(24);
};

struct LatchWaitOptions {
  // How long to wait; zero: only look.
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

// Where std::latch stands, across processes:
//
//   redlatch::CountDownLatch done(client, "import:2026-11-20", 12);
//   done.count_down();   // each of twelve workers, when it has finished
//   done.wait();         // whoever goes on from there
//
//   the latch is           count_down(n)                 wait()          try_wait()
//   not there yet          made by the first use of an object            false
//   closed, n to go        counts; opens it at zero      waits           false
//   open                   refused, unless n is 0        returns         true
//   gone (see below)       kAborted                      kAborted        kAborted
//
// The first object that uses a name makes the latch, with its constructor's count, 0 to 10^15;
// further ones join it, and must have the same count (kFailedPrecondition, which names both). It
// stays, open too, for `ttl` after it was last touched: who comes late does not wait.
//
// An object whose latch has vanished since its first use, because it was forgotten or the server
// lost its data, gets kAborted from then on, also where another object has made it anew: what had
// been counted is lost. Who waits hears of it at the next heartbeat (a third of `ttl`, 10 s at
// most). A new object makes the latch anew.
//
// After a failover the new server may not have received the latest counts. Clients that are still
// there repeat theirs. If others are missing for longer than 30 s (or `ttl`, if that is less), the
// latch is gone, as above.
//
// A count_down() whose answer is lost is sent again, and counts once. It and wait() go on trying to
// reach a server for the client's `unreachable_after`.
//
// The std face throws std::system_error, whose code is of redlatch::error_category(). Constructors
// do no I/O and never fail. Waiting returns by its end + 50 ms; try_wait() as soon as the server
// has answered, within the URL's `command_timeout` (1 s). Destroying an object ends calls that wait
// in it with kCancelled. In a forked child every call is refused. A latch is held by nobody: an
// Observer hears nothing of it.
//
// Thread-safe. Neither copied nor moved.
class REDLATCH_EXPORT CountDownLatch {
 public:
  CountDownLatch(Client client, std::string_view name, int64_t count, LatchOptions options = {});
  ~CountDownLatch();
  CountDownLatch(const CountDownLatch&) = delete;
  CountDownLatch& operator=(const CountDownLatch&) = delete;

  // The std face.
  void count_down(std::ptrdiff_t n = 1);
  void wait();
  bool try_wait() { return WaitFor(absl::ZeroDuration()); }
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& wait) {
    return WaitFor(Duration(wait));
  }
  template <class Clock, class Span>
  bool wait_until(const std::chrono::time_point<Clock, Span>& deadline) {
    return internal::TryUntil(deadline, [this](absl::Duration left) { return WaitFor(left); });
  }
  void arrive_and_wait(std::ptrdiff_t n = 1);

  // The status face:
  //   kDeadlineExceeded     Wait: closed for as long as `wait`
  //   kCancelled            Wait: `stop` fired
  //   kUnavailable          the server cannot be reached, or did not answer in time. A CountDown()
  //                         may have counted: where that matters, give it an id and repeat it
  //   kAborted              the latch is gone
  //   kFailedPrecondition   it was made with another count, is something else than a latch, or has
  //                         less than `n` to go (and the id has not counted already)
  //   kInvalidArgument      a bad name, count or option
  //   kPermissionDenied, kResourceExhausted, kInternal    as of RedisLockBase::Acquire()
  absl::Status Wait(const LatchWaitOptions& options = {});
  // The asynchronous face; see RedisLockBase::AcquireAsync().
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
  // `id` says who arrives, such as the name of a job that may be run again after a crash: all calls
  // with the same one, on any object and from any process, count once. Where it is empty, each call
  // counts.
  absl::Status CountDown(int64_t n = 1, std::string_view id = {});
  // How many are still to arrive; 0: open.
  absl::StatusOr<int64_t> Count();

  const std::string& name() const;

 private:
  bool WaitFor(absl::Duration wait);

  class LatchBody;
  const std::shared_ptr<LatchBody> body_;
};

}  // namespace redlatch

#endif  // REDLATCH_COUNT_DOWN_LATCH_H_
