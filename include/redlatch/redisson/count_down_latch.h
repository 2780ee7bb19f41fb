// A latch that Java programs share through Redisson's RCountDownLatch.
#ifndef REDLATCH_REDISSON_COUNT_DOWN_LATCH_H_
#define REDLATCH_REDISSON_COUNT_DOWN_LATCH_H_

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
#include "redlatch/count_down_latch.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/internal/try_until.h"

namespace redlatch::redisson {

// The same latch as `redisson.getCountDownLatch(name)` in Java.
//
//   redlatch::redisson::CountDownLatch done(client, "import:2026-11-20");
//   if (auto set = done.TrySetCount(12); !set.ok()) return set.status();
//   done.count_down();   // each of twelve workers, in either language
//   done.wait();
//
// In Redisson, a latch that was never set is open, and so is one whose key is gone. When it has
// opened, it may be set again. In a cluster, a name that contains a `{` is refused.
// redlatch::CountDownLatch has none of these traps.
//
// Thread-safe; neither copied nor moved. It may be destroyed while other threads wait in it: their
// calls end with kCancelled.
class REDLATCH_EXPORT CountDownLatch {
 public:
  CountDownLatch(const Client& client, std::string_view name);
  ~CountDownLatch();
  CountDownLatch(const CountDownLatch&) = delete;
  CountDownLatch& operator=(const CountDownLatch&) = delete;

  // Closes the latch with that count, and returns true, unless it is closed already.
  absl::StatusOr<bool> TrySetCount(int64_t count);

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
  void arrive_and_wait(std::ptrdiff_t n = 1) {
    count_down(n);
    wait();
  }

  // The errors are those of redlatch::CountDownLatch. A closed latch is kDeadlineExceeded when
  // `wait` is over.
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
  // Counts once, even if the server's answer is lost and the client repeats it. Counting an open
  // latch has no effect.
  absl::Status CountDown(int64_t n = 1);
  // Asks the server how many are still to arrive; 0: open.
  absl::StatusOr<int64_t> Count();

  const std::string& name() const;

 private:
  bool WaitFor(absl::Duration wait);

  struct Body;
  const std::shared_ptr<Body> body_;
};

}  // namespace redlatch::redisson

#endif  // REDLATCH_REDISSON_COUNT_DOWN_LATCH_H_
