// The base class of all locks, and the scripts that a lock of your own supplies.
#ifndef REDLATCH_REDIS_LOCK_BASE_H_
#define REDLATCH_REDIS_LOCK_BASE_H_

#include <chrono>
#include <memory>
#include <optional>
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
#include "redlatch/internal/thread_annotations.h"
#include "redlatch/internal/try_until.h"
#include "redlatch/lease.h"
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "redlatch/lua_script.h"
#include "redlatch/owner.h"

namespace redlatch {

namespace internal {
struct LibraryKind;
}

// A lock that threads, processes and hosts share by its name. This class runs the lock's scripts by
// EVALSHA, renews its holds on a thread of the client, and queues its waiters. It is abstract: a
// subclass supplies the scripts (Scripts()) and says what they can do (Traits()). See
// docs/tutorials/06-a-lock-of-your-own.md.
//
//   the lock is                 lock()                     try_lock()   Acquire({})
//   free                        holds                      true         Lease
//   another owner's             waits                      false        waits
//   this thread's, by lock()    reentrant: holds again     true         Lease
//                               else: throws               false        waits
//   unreachable                 throws after the client's `unreachable_after`   kUnavailable
//                               (try_lock: after the URL's `command_timeout`)
//
// Lock objects with the same name and class on the same client are the same lock. A name has 1 to
// 4,096 bytes, including the client's key_prefix, and does not begin with "redlatch:". If it
// contains a }, it must have a hash tag: at least one byte between its first { and the next }.
// Constructors do no I/O and never fail: a bad name or option is kInvalidArgument at first use.
//
// Thread-safe; neither copied nor moved. It may be destroyed while other threads wait in it: their
// calls end with kCancelled. When the last object of a name on a client is destroyed, holds taken
// by lock() are released in the background; leases are not affected. For fork(), exit(), cancelled
// threads and a lack of memory, see docs/guarantees.md#in-your-process.
class REDLATCH_EXPORT REDLATCH_LOCKABLE RedisLockBase {
 public:
  RedisLockBase(const RedisLockBase&) = delete;
  RedisLockBase& operator=(const RedisLockBase&) = delete;
  virtual ~RedisLockBase();

  // These work like those of std::timed_mutex, so that std::scoped_lock, std::unique_lock,
  // std::lock() and std::condition_variable_any work. The hold belongs to the calling thread.
  // Errors are thrown: std::system_error with a code of redlatch::error_category(), or with
  // std::errc::resource_deadlock_would_occur if a thread locks again a lock that it already holds.
  void lock() REDLATCH_LOCKS();
  // Returns false only if the lock is busy. It gives the server the URL's `command_timeout` (1 s)
  // to answer, and then throws. std::scoped_lock and std::lock() call this for several locks.
  bool try_lock() REDLATCH_TRIES_TO_LOCK() {
    return TryLockFor(absl::ZeroDuration()).value_or(false);
  }
  // These return at most 50 ms after the end of the wait.
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) REDLATCH_TRIES_TO_LOCK() {
    return TryLockFor(Duration(wait)).value_or(false);
  }
  template <class Clock, class Span>
  bool try_lock_until(const std::chrono::time_point<Clock, Span>& deadline)
      REDLATCH_TRIES_TO_LOCK() {
    return internal::TryUntil(deadline, [this](absl::Duration left) { return TryLockFor(left); });
  }
  // Sends the release and returns. If the release fails, the client repeats it in the background
  // until the lease expires. unlock() waits for the server's answer, for the `command_timeout` at
  // most, only if it hands the lock to another thread of this client. Without a hold, or after a
  // loss, it releases nothing and tells the observer.
  void unlock() noexcept REDLATCH_UNLOCKS();

  // Returns a Lease, which knows how long the hold lasts, whether it was lost, and its fencing
  // token. The hold belongs to the code that has the Lease, not to a thread. Errors:
  //   kDeadlineExceeded     busy for as long as `wait`
  //   kCancelled            `stop` fired, or the lock object was destroyed
  //   kUnavailable          the server cannot be reached, or did not answer in time
  //   kFailedPrecondition   misuse, or the key is not this kind of lock
  //   kInvalidArgument      a bad name or option
  //   kPermissionDenied     the server does not permit a command or channel
  //   kResourceExhausted    the server is out of memory, or the client can start no thread
  //   kInternal             the server's answer makes no sense
  absl::StatusOr<Lease> Acquire(const AcquireOptions& options = {}) {
    return AcquireBy({}, options);
  }
  // Acquire() without a wait.
  absl::StatusOr<Lease> TryAcquire() { return Acquire({.wait = absl::ZeroDuration()}); }

  // Like Acquire(), but returns at once. The callback gets the result, exactly once. No thread
  // waits.
  //
  // The callback runs where ClientOptions::post says, or else on the client's own thread. It runs
  // inside this call only if no thread can be started, and never while redlatch has locked an
  // internal mutex. It may do anything, even destroy the lock and the last handle of the client,
  // but should not block. An exception is reported on stderr. If the callback is destroyed without
  // being called, for example by an event loop that ends, the lock is given back.
  //
  // The wait ends with kCancelled if `options.stop` fires, or the lock or the last handle of the
  // client is destroyed; a grant that arrives nevertheless is passed to the callback or given back.
  // The hold belongs to no thread: each acquisition has an owner of its own.
  using AcquireCallback = absl::AnyInvocable<void(absl::StatusOr<Lease>) &&>;
  void AcquireAsync(const AcquireOptions& options, AcquireCallback callback) {
    AcquireAsyncBy({}, options, std::move(callback));
  }
  // The same for coroutines: see Awaitable.
  template <internal::AwaitableAs<AcquireOptions> Options = AcquireOptionsView>
  Awaitable<absl::StatusOr<Lease>> AcquireAwaitable(Options&& options = {}) {
    return AcquireAwaitableAs({}, options);
  }

  // Returns the calling thread's hold, from lock() or from its own Acquire(), or an empty Hold. A
  // hold that was lost is returned until unlock(). When a thread first asks for a SimpleLock's hold
  // that lock() took, this call may ask the server for the token. From then on, lock() fetches the
  // token.
  Hold current() const;
  // How often the calling thread holds the lock.
  int hold_count() const;

  // Returns what the server knows about the lock. The answer may be out of date when it arrives.
  absl::StatusOr<LockInfo> Inspect() const;
  // Takes the lock from its holders, and hands it to the next waiter. Holders are told by message,
  // usually at once, and at their next renewal at the latest. Until then, only fencing tokens
  // protect the data from them. Returns OK if the lock is free.
  absl::Status ForceRelease();

  const std::string& name() const;

 protected:
  // `kind` is for the library's own classes, whose keys no other class can have.
  RedisLockBase(const Client& client, std::string_view name, LockOptions options,
                const internal::LibraryKind* kind = nullptr);

  // Acquire() and its variants for an Owner. A class whose LockTraits allow owners makes them
  // public.
  absl::StatusOr<Lease> AcquireAs(const Owner& owner, const AcquireOptions& options = {}) {
    return AcquireBy({.owner = owner}, options);
  }
  void AcquireAsyncAs(const Owner& owner, const AcquireOptions& options, AcquireCallback callback) {
    AcquireAsyncBy({.owner = owner}, options, std::move(callback));
  }
  template <internal::AwaitableAs<AcquireOptions> Options = AcquireOptionsView>
  Awaitable<absl::StatusOr<Lease>> AcquireAwaitableAs(const Owner& owner, Options&& options = {}) {
    return {options.stop, [this, owner, its = AcquireOptions(options)](
                              std::stop_token both, AcquireCallback told) mutable {
              its.stop = std::move(both);
              AcquireAsyncAs(owner, its, std::move(told));
            }};
  }

  // The owner of a hold, the calling thread by default, and the arguments at the end of this
  // acquisition's ARGV, after ExtraArgs(). A client passes a hold on only between threads with the
  // same `args`.
  struct Caller {
    Owner owner = {};
    std::vector<std::string> args = {};
  };
  absl::StatusOr<Lease> AcquireBy(const Caller& caller, const AcquireOptions& options);
  void AcquireAsyncBy(const Caller& caller, const AcquireOptions& options,
                      AcquireCallback callback);

  // The shared side of a lock that has one (see SharedScripts()). These correspond to lock(),
  // try_lock_for(), unlock(), Acquire(), AcquireAsync(), current() and hold_count() of the
  // exclusive side.
  void LockShared() REDLATCH_LOCKS_SHARED();
  bool TryLockSharedFor(absl::Duration wait);
  void UnlockShared() noexcept REDLATCH_UNLOCKS();
  absl::StatusOr<Lease> AcquireShared(const AcquireOptions& options);
  void AcquireSharedAsync(const AcquireOptions& options, AcquireCallback callback);
  Hold CurrentShared() const;
  int SharedHoldCount() const;

  // The implementation of a lock object, and the usual one. For the library.
  class Body;
  class LockBody;
  explicit RedisLockBase(std::shared_ptr<Body> body);
  static const std::shared_ptr<Body>& BodyOf(const RedisLockBase& lock) { return lock.body_; }

 private:
  // These are called once, at first use, and their results are copied. The text that they refer to
  // must live as long as the program.
  virtual LockScripts Scripts() const = 0;
  virtual LockTraits Traits() const = 0;
  // The scripts of the shared side; `inspect` and `force_release` are always those of Scripts().
  virtual LockScripts SharedScripts() const { return {}; }
  // Further keys of the lock, by suffix: "cooling" is `redlatch:2:{name}:x.cooling`. A suffix has 1
  // to 64 of a-z, 0-9, '_', '.' and '-', does not end in .queue or .waiters, and does not contain
  // .gone. These keys follow the others in every script's KEYS, and ExtraArgs() the others in every
  // acquire's ARGV.
  virtual std::vector<std::string> ExtraKeys() const { return {}; }
  virtual std::vector<std::string> ExtraArgs() const { return {}; }

  // True: locked. No value: this thread would wait for itself.
  std::optional<bool> TryLockFor(absl::Duration wait);

  std::shared_ptr<Body> body_;
};

}  // namespace redlatch

#endif  // REDLATCH_REDIS_LOCK_BASE_H_
