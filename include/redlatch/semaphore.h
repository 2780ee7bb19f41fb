// A counting semaphore for threads, processes and hosts.
#ifndef REDLATCH_SEMAPHORE_H_
#define REDLATCH_SEMAPHORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "redlatch/permit.h"

namespace redlatch {

namespace internal {
class LockHandle;
struct LockType;
}  // namespace internal

struct SemaphoreOptions {
  // How long the server keeps permits that are not renewed, for example because their process died.
  // The client renews them every third of that time. 10 ms to one year.
  Duration lease = absl::Seconds(30);

  // As LockOptions::turn: how long a client may use a permit again and again while other clients
  // wait. Zero: strict order.
  std::optional<Duration> turn = {};

  // As LockOptions::on_lost.
  std::function<void(const LostLease&)> on_lost = {};
};

// Limits how many callers may hold a permit at once, wherever they run.
//
//   redlatch::Semaphore slots(client, "transcoders", 8);
//   absl::StatusOr<redlatch::Permit> slot = slots.Acquire(1, {.wait = 5min});
//   if (!slot.ok()) return slot.status();
//   Transcode(video, slot->lost());
//
//   permits free               acquire()   try_acquire()   Acquire(n)
//   enough, and none waits     has one     true            Permit
//   else                       waits       false           waits
//   unreachable                throws after the client's `unreachable_after`    kUnavailable
//                              (try_acquire: after the URL's `command_timeout`)
//
// If a process dies, its permits come back when their leases end. Waiters of all clients get
// permits in the order in which they asked (but see SemaphoreOptions::turn). While permits gather
// for a large request, smaller requests wait behind it.
//
// The first acquisition under a name stores its object's capacity, 1 to 10^9. An object with
// another capacity gets kFailedPrecondition at each acquisition, with a message that names both,
// until SetCapacity() is called: its value then counts for all objects. The capacity is forgotten a
// day after the last permit could have been held.
//
// Constructors do no I/O and never fail: a bad name or capacity is kInvalidArgument at first use.
// Thread-safe; neither copied nor moved. It may be destroyed while other threads wait in it: their
// calls end with kCancelled. When the last object of a name on a client is destroyed, the permits
// that acquire() took are given back in the background; a Permit is not affected.
class REDLATCH_EXPORT Semaphore {
 public:
  Semaphore(const Client& client, std::string_view name, int64_t capacity,
            SemaphoreOptions options = {});
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // These work like those of std::counting_semaphore, one permit at a time. Such a permit is the
  // client's: any of its threads may release what another has acquired. Errors are thrown:
  // std::system_error with a code of redlatch::error_category().
  void acquire() { TryAcquireFor(absl::InfiniteDuration()); }
  // Returns false only if the semaphore is busy. It gives the server the URL's `command_timeout` (1
  // s) to answer, and then throws.
  bool try_acquire() { return TryAcquireFor(absl::ZeroDuration()); }
  // These return at most 50 ms after the end of the wait.
  template <class Rep, class Period>
  bool try_acquire_for(const std::chrono::duration<Rep, Period>& wait) {
    return TryAcquireFor(Duration(wait));
  }
  template <class Clock, class Span>
  bool try_acquire_until(const std::chrono::time_point<Clock, Span>& deadline) {
    return internal::TryUntil(deadline,
                              [this](absl::Duration left) { return TryAcquireFor(left); });
  }
  // Releases that many of the permits that this client's acquire() and its variants have taken,
  // beginning with those that were lost in the meantime. If the client has fewer, release() throws
  // kFailedPrecondition and changes nothing. It does not wait for the server. If a release fails,
  // the client repeats it in the background until the lease would have ended.
  void release(std::ptrdiff_t permits = 1);

  // Acquires any number of permits, which only the returned Permit can give back. The errors are
  // those of RedisLockBase::Acquire():
  //   kFailedPrecondition   also for more permits than there are, or another capacity
  //   kInvalidArgument      also for less than one permit
  absl::StatusOr<Permit> Acquire(int64_t permits = 1, const AcquireOptions& options = {});
  // Acquire() without a wait.
  absl::StatusOr<Permit> TryAcquire(int64_t permits = 1) {
    return Acquire(permits, {.wait = absl::ZeroDuration()});
  }

  // As RedisLockBase::AcquireAsync().
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

  // Sets the capacity for all users of the semaphore, at once. A larger capacity lets waiters in. A
  // smaller one takes no permits away, but no caller gets a permit until enough have come back.
  // Waiters that want more permits than the new capacity get kFailedPrecondition.
  absl::Status SetCapacity(int64_t capacity);

  // Returns what the server knows about the semaphore, with `capacity` and available(). The answer
  // may be out of date when it arrives.
  absl::StatusOr<LockInfo> Inspect() const;

  // Takes all permits from their holders, and lets waiters in: see RedisLockBase::ForceRelease().
  absl::Status ForceRelease();

  const std::string& name() const;

 protected:
  // A semaphore of another kind, whose capacity is at the server alone. For the library.
  Semaphore(const Client& client, std::string_view name, SemaphoreOptions options,
            internal::LockType (*type)());
  // Returns the way to run a script that is no part of a hold.
  absl::StatusOr<std::shared_ptr<internal::LockHandle>> Borrow() const;

 private:
  bool TryAcquireFor(absl::Duration wait);

  class Body;
  const std::shared_ptr<Body> body_;
};

}  // namespace redlatch

#endif  // REDLATCH_SEMAPHORE_H_
