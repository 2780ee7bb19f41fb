// A counting semaphore for threads, processes and hosts.
#ifndef REDLATCH_SEMAPHORE_H_
#define REDLATCH_SEMAPHORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/awaitable.h"
#include "redlatch/client.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/internal/try_until.h"
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "redlatch/permit.h"

namespace redlatch {

struct SemaphoreOptions {
  // How long permits stay taken without being renewed, that is, after their process has died. They
  // are renewed each third. At least 10 ms.
  Duration lease = absl::Seconds(30);

  // As LockOptions::on_lost.
  std::function<void(const LostLease&)> on_lost = {};
};

// At most so many at a time, wherever they run:
//
//   redlatch::Semaphore slots(client, "transcoders", 8);
//   absl::StatusOr<redlatch::Permit> slot = slots.Acquire(1, {.wait = absl::Minutes(5)});
//   if (!slot.ok()) return slot.status();
//   Transcode(video, slot->lost());
//
// Permits of a process that dies come back when its lease ends. Whoever waits gets them in turn,
// across all clients, by a message: a request for many is not overtaken by requests for few, which
// wait behind it while permits gather.
//
// Two faces:
//
//   std      acquire, try_acquire, try_acquire_for, try_acquire_until, release: as those of
//            std::counting_semaphore, one permit at a time. Such permits are the client's: any
//            thread may give back what another has taken.
//   status   Acquire, TryAcquire: any number of permits, as a Permit, which alone gives them back.
//
//   permits free         acquire()   try_acquire()   Acquire(n)
//   enough, nobody waits   has one     true            a Permit
//   else                   waits       false           waits
//   unreachable            throws after the client's `unreachable_after`    kUnavailable
//                          (try_acquire: after the URL's `command_timeout`)
//
// Capacity, 1 to 10^9: the first that acquires by a name stores its constructor's. An object with
// another one gets kFailedPrecondition, which names both, at each acquisition; unless SetCapacity()
// has been called, whose value then counts, whatever constructors say. It is forgotten a day after
// the last permit could have been held.
//
// Constructors do no I/O and never fail: a bad name or capacity is kInvalidArgument at first use.
// A call with a wait returns by its end + 50 ms. One without a wait, such as try_acquire(), returns
// as soon as the server has answered, and gives it the URL's `command_timeout` (1 s) to do so.
// release(), and the destructor of a Permit, do not wait for the server; see RedisLockBase.
//
// An object may be destroyed by any thread, also while others wait in it: their calls end with
// kCancelled. Where it is the last one in use of that name on the client, what acquire() has taken
// is given back, in the background. Permits are not touched. In a forked child every call is
// refused.
//
// Thread-safe. Neither copied nor moved.
class REDLATCH_EXPORT Semaphore {
 public:
  Semaphore(Client client, std::string_view name, int64_t capacity, SemaphoreOptions options = {});
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // The std face. Throws std::system_error whose code is of redlatch::error_category().
  void acquire() { TryAcquireFor(absl::InfiniteDuration()); }
  // False for busy only; throws where the server cannot be asked.
  bool try_acquire() { return TryAcquireFor(absl::ZeroDuration()); }
  template <class Rep, class Period>
  bool try_acquire_for(const std::chrono::duration<Rep, Period>& wait) {
    return TryAcquireFor(Duration(wait));
  }
  template <class Clock, class Span>
  bool try_acquire_until(const std::chrono::time_point<Clock, Span>& deadline) {
    return internal::TryUntil(deadline,
                              [this](absl::Duration left) { return TryAcquireFor(left); });
  }
  // Gives back so many of those that acquire() and its kin have taken by this client, first those
  // that were lost meanwhile. Where it has not taken so many, it changes nothing and throws,
  // kFailedPrecondition. A server that does not answer is no error: the client goes on trying in
  // the background, until the lease would have ended by itself.
  void release(std::ptrdiff_t permits = 1);

  // The status face: errors as those of RedisLockBase::Acquire(), and
  //   kFailedPrecondition   more permits than there are; or another capacity than this object's
  //   kInvalidArgument      less than one permit
  absl::StatusOr<Permit> Acquire(int64_t permits = 1, const AcquireOptions& options = {});
  // Acquire() that does not wait.
  absl::StatusOr<Permit> TryAcquire(int64_t permits = 1);

  // The asynchronous face; see RedisLockBase::AcquireAsync().
  using AcquireCallback = absl::AnyInvocable<void(absl::StatusOr<Permit>) &&>;
  void AcquireAsync(int64_t permits, const AcquireOptions& options, AcquireCallback callback);
  template <internal::AwaitableAs<AcquireOptions> Options = AcquireOptionsView>
  Awaitable<absl::StatusOr<Permit>> AcquireAwaitable(int64_t permits = 1, Options&& options = {}) {
    return {options.stop, [this, permits, its = AcquireOptions(options)](
                              std::stop_token both, AcquireCallback told) mutable {
              its.stop = std::move(both);
              AcquireAsync(permits, its, std::move(told));
            }};
  }

  // For all its users, at once. Growing lets waiters in. Shrinking takes permits from nobody: it
  // lets nobody in until enough have come back; who waits for more than there will be ends with
  // kFailedPrecondition.
  absl::Status SetCapacity(int64_t capacity);

  // What the server knows: out of date when it arrives. `available` is 0 also while a smaller
  // capacity is still exceeded. `holders` are 100 at most, those whose lease ends first.
  absl::StatusOr<int64_t> capacity() const;
  absl::StatusOr<int64_t> available() const;
  absl::StatusOr<std::vector<LockInfo::Party>> holders() const;
  absl::StatusOr<LockInfo> Inspect() const;

  // Takes all permits from whoever holds them, and lets waiters in; see
  // RedisLockBase::ForceRelease().
  absl::Status ForceRelease();

  const std::string& name() const;

 private:
  bool TryAcquireFor(absl::Duration wait);

  class SemaphoreBody;
  const std::shared_ptr<SemaphoreBody> body_;
};

}  // namespace redlatch

#endif  // REDLATCH_SEMAPHORE_H_
