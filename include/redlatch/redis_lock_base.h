// What every lock of redlatch is: the std face, the status face, and the scripts behind them.
#ifndef REDLATCH_REDIS_LOCK_BASE_H_
#define REDLATCH_REDIS_LOCK_BASE_H_

#include <chrono>
#include <cstdint>
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
#include "redlatch/internal/try_until.h"
#include "redlatch/lease.h"
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "redlatch/lua_script.h"
#include "redlatch/owner.h"

namespace redlatch {

// A lock that threads, processes and hosts share by name. This class owns what all locks have in
// common: it runs scripts by their SHA-1, renews holds, and queues those who wait, all in the
// client, once. A subclass supplies its scripts.
//
// Three faces:
//
//   std      lock, try_lock, try_lock_for, try_lock_until, unlock: meets TimedLockable, so that
//            std::scoped_lock, unique_lock, std::lock and condition_variable_any just work. Such a
//            hold belongs to the calling thread.
//   status   Acquire, TryAcquire: a Lease, which says how long the hold lasts, whether it was lost,
//            and its fencing token. Such a hold belongs to whoever has the Lease.
//   async    AcquireAsync, AcquireAwaitable: the same for callbacks and coroutines; no thread
//   waits.
//
//   the lock is                lock()                        try_lock()   Acquire({})
//   free                       holds                         true         Lease
//   somebody else's            waits                         false        waits
//   this thread's, by lock()   reentrant: holds once more    true         Lease
//                              else: throws                  false        waits
//   unreachable                throws after the client's `unreachable_after`    kUnavailable
//                              (try_lock: after the URL's `command_timeout`)
//
// Lock objects of one name and class on one client are the same lock. A name is any bytes, 4,096 at
// most with the client's key_prefix, that do not begin with "redlatch:"; if it has a }, it has a
// hash tag: something between its first { and the next }. Constructors do no I/O and never fail: a
// bad name is kInvalidArgument at first use.
//
// A call with a wait returns by its end + 50 ms. One without a wait, such as try_lock(), returns as
// soon as the server has answered, and gives it the URL's `command_timeout` (1 s) to do so, because
// std::lock() and std::scoped_lock call try_lock() and pass on what it throws.
//
// unlock(), and the destructor of a Lease, do not wait for the server: they write the release and
// return. Another client may find the lock taken for a moment longer; this client's own next call
// travels behind the release. A release that fails is repeated in the background until the lease
// expires. On one server, Client::Ping() travels behind the releases and so returns after them,
// unless one has failed and is being repeated. Release() waits for the answer. Two kinds of
// unlock() do wait, by the `command_timeout` at most: the first one of a kind of locks over a new
// connection, and one that hands the lock to a waiting thread of the same client.
//
// When a client's last handle goes, it waits for the answers that are still to come, by the
// `command_timeout`. So a process that ends normally leaves nothing locked. Cached locks
// (LockOptions::cache_for) go back when the process exits, even if the client is never destroyed.
//
// _exit(), exec() and fork() right after unlock() are safe too, with these exceptions. In a `turn`
// the lock stays taken for two seconds. It stays taken until its lease expires if the client caches
// it; if the connection was so busy that the release could not be written at once; and if it was
// one of the two kinds that wait, and the client has made asynchronous calls (one of its threads
// then writes the release).
//
// An object may be destroyed by any thread, also while others wait in it: their calls end with
// kCancelled. Where it is the last one of that name on the client, what was taken by lock() is
// released, also what a thread held that has ended without unlock(). That is done in the
// background: others may find the lock held for a moment more, or where the server does not answer
// until the lease ends. Leases are not touched. In a forked child every call is refused.
//
// No call is a cancellation point, as pthread_mutex_lock() is none. A thread that is cancelled by
// pthread_cancel() finishes the call and ends at its next cancellation point; it does not release
// a lock that the call acquired. Do not call the library while PTHREAD_CANCEL_ASYNCHRONOUS is set.
//
// If the system has no thread for the client, an acquisition fails with kResourceExhausted, and the
// next one tries again to start it. If an allocation fails, the call throws std::bad_alloc, fails
// with kResourceExhausted or succeeds all the same, and the client works on; a release is repeated
// in the background. The process ends by std::terminate() where a second one fails while the first
// is being dealt with, in calls without a thread (AcquireAsync()), in a RedLock, and elsewhere
// where no step can be taken back: docs/decisions/0036-a-failed-allocation-fails-the-call.md.
//
// Thread-safe. Neither copied nor moved.
//
// Those of its methods that are virtual are so for MultiLock; a lock of your own overrides the
// private ones alone.
//
// A lock of your own is a subclass with Lua of your own: docs/tutorials/06-a-lock-of-your-own.md.
class REDLATCH_EXPORT RedisLockBase {
 public:
  RedisLockBase(const RedisLockBase&) = delete;
  RedisLockBase& operator=(const RedisLockBase&) = delete;
  virtual ~RedisLockBase();

  // The std face. Throws std::system_error whose code is of redlatch::error_category(), or
  // std::errc::resource_deadlock_would_occur for a thread that locks again what it holds.
  virtual void lock();
  // False for busy only; throws if the server has not answered within the `command_timeout`.
  bool try_lock();
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) {
    return TryLockFor(Duration(wait)).value_or(false);
  }
  template <class Clock, class Span>
  bool try_lock_until(const std::chrono::time_point<Clock, Span>& deadline) {
    return internal::TryUntil(deadline, [this](absl::Duration left) { return TryLockFor(left); });
  }
  // By a thread without a hold, or after a loss, it releases nothing and tells the observer.
  virtual void unlock() noexcept;

  // The status face:
  //   kDeadlineExceeded     busy for as long as `wait`
  //   kCancelled            `stop` fired
  //   kUnavailable          the server cannot be reached, or did not answer in time
  //   kFailedPrecondition   misuse, or the key is something else than this kind of lock
  //   kInvalidArgument      a bad name or option
  //   kPermissionDenied     the server does not permit a command or channel
  //   kResourceExhausted    the server's memory is full
  //   kInternal             the server answered what no redlatch script says
  absl::StatusOr<Lease> Acquire(const AcquireOptions& options = {}) {
    return AcquireBy({}, options);
  }
  // Acquire() that does not wait.
  absl::StatusOr<Lease> TryAcquire();

  // The asynchronous face: Acquire() that returns at once, and has the callback told what came of
  // it, once, with the same errors. No thread waits meanwhile.
  //
  // The callback runs where ClientOptions::post says, else on the client's own thread; never inside
  // the call that it is of, nor under a lock of redlatch's. What it throws is told on stderr and
  // otherwise ignored. It may do anything there, destroy the lock and the last handle of the client
  // too, but should not wait. If it is destroyed without being called, as when an event loop has
  // ended, what it was to be given is given back.
  //
  // `options.stop` ends the waiting with kCancelled; so do destroying the lock, and the client that
  // it was the last of. If the lock was granted by then, the callback is given that, or it is given
  // back. Those who wait come in turn, as threads do.
  //
  // The hold belongs to whoever has the Lease, and to no thread: each acquisition is an owner of
  // its own. If the system cannot start a thread for the client,
  // the callback gets kResourceExhausted, inside the call or by `post`. In a forked child the call
  // is refused, on a thread of its own if there is no `post`.
  using AcquireCallback = absl::AnyInvocable<void(absl::StatusOr<Lease>) &&>;
  void AcquireAsync(const AcquireOptions& options, AcquireCallback callback) {
    AcquireAsyncBy({}, options, std::move(callback));
  }
  // The same for coroutines, of any type: see Awaitable.
  //   absl::StatusOr<redlatch::Lease> lease = co_await lock.AcquireAwaitable(options);
  template <internal::AwaitableAs<AcquireOptions> Options = AcquireOptionsView>
  Awaitable<absl::StatusOr<Lease>> AcquireAwaitable(Options&& options = {}) {
    return {options.stop, [this, its = AcquireOptions(options)](std::stop_token both,
                                                                AcquireCallback told) mutable {
              its.stop = std::move(both);
              AcquireAsync(its, std::move(told));
            }};
  }

  // The calling thread's hold: by lock(), or by an Acquire() of its own that named no Owner; else a
  // Hold of nothing. After a loss it tells so until unlock().
  virtual Hold current() const;
  // How often the calling thread holds the lock.
  virtual int hold_count() const;

  // What the server knows of the lock: out of date when it arrives.
  virtual absl::StatusOr<LockInfo> Inspect() const;
  // Takes the lock from whoever holds it, and hands it to the next waiter. Holders are told at
  // once, or at their next renewal; what they do until then is no longer protected, except by
  // fencing tokens. OK where nobody holds it.
  virtual absl::Status ForceRelease();

  const std::string& name() const;

 protected:
  RedisLockBase(Client client, std::string_view name, LockOptions options);

  // For whom a hold is acquired: the calling thread, or an Owner (see LockTraits). `args` stand at
  // the end of this acquisition's ARGV, behind ExtraArgs(); a hold that is passed on inside the
  // client goes to threads with the same ones only.
  struct Caller {
    Owner owner = {};
    std::vector<std::string> args = {};
  };
  virtual absl::StatusOr<Lease> AcquireBy(const Caller& caller, const AcquireOptions& options);
  virtual void AcquireAsyncBy(const Caller& caller, const AcquireOptions& options,
                              AcquireCallback callback);

  // Acquire() and its kin for an Owner. A class whose LockTraits allow owners makes them public.
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

  // The shared side of a lock that has one (see SharedScripts()): as lock(), try_lock_for(),
  // unlock(), Acquire(), current() and hold_count() are for the exclusive side.
  void LockShared();
  bool TryLockSharedFor(absl::Duration wait);
  void UnlockShared() noexcept;
  absl::StatusOr<Lease> AcquireShared(const AcquireOptions& options);
  void AcquireSharedAsync(const AcquireOptions& options, AcquireCallback callback);
  Hold CurrentShared() const;
  int SharedHoldCount() const;

 private:
  // Asked once, at first use, and copied: what they refer to must live as long as the program.
  virtual LockScripts Scripts() const = 0;
  virtual LockTraits Traits() const = 0;
  // Those of the shared side; `inspect` and `force_release` are Scripts()' own.
  virtual LockScripts SharedScripts() const { return {}; }
  // Further keys of the lock, by suffix: "cooling" is `redlatch:2:{name}:x.cooling`. A suffix is 1
  // to 64 of a-z, 0-9, '_', '.' and '-', and as the keys of no queue are called: it does not end in
  // .queue or .waiters, and has no .gone. in it. These keys follow the others in every script's
  // KEYS, and ExtraArgs() the others in every acquire's ARGV.
  virtual std::vector<std::string> ExtraKeys() const { return {}; }
  virtual std::vector<std::string> ExtraArgs() const { return {}; }

  // The library's own classes, whose keys no other class can have: what `key_kind` says begins
  // their suffixes, and ExtraKeys() are whole ones.
  friend class MultiLock;
  friend class SimpleLock;
  friend class ReentrantLock;
  friend class ReentrantReadWriteLock;
  friend class RedLock;
  RedisLockBase(Client client, std::string_view name, LockOptions options,
                std::string_view key_kind);

  // True: it was acquired within `wait`. No value: this thread would wait for itself.
  virtual std::optional<bool> TryLockFor(absl::Duration wait);

  class LockBody;
  explicit RedisLockBase(std::shared_ptr<LockBody> body);
  static const std::shared_ptr<internal::ClientCore>& CoreOf(const Client& client);

  std::shared_ptr<LockBody> body_;
};

}  // namespace redlatch

#endif  // REDLATCH_REDIS_LOCK_BASE_H_
