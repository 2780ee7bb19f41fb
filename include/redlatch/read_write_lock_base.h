// What all locks for readers and writers have in common.
#ifndef REDLATCH_READ_WRITE_LOCK_BASE_H_
#define REDLATCH_READ_WRITE_LOCK_BASE_H_

#include <chrono>
#include <utility>

#include "absl/status/statusor.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/internal/thread_annotations.h"
#include "redlatch/internal/try_until.h"
#include "redlatch/lease.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// A lock for many readers or one writer: a ReentrantReadWriteLock, or a redisson::ReadWriteLock.
// The writer's methods are those of RedisLockBase.
class REDLATCH_EXPORT ReadWriteLockBase : public RedisLockBase {
 public:
  ~ReadWriteLockBase() override;

  // The reader's side. The writer's side is lock(), try_lock() and so on.
  void lock_shared() REDLATCH_LOCKS_SHARED() { LockShared(); }
  bool try_lock_shared() REDLATCH_TRIES_TO_LOCK_SHARED() {
    return TryLockSharedFor(absl::ZeroDuration());
  }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& wait)
      REDLATCH_TRIES_TO_LOCK_SHARED() {
    return TryLockSharedFor(Duration(wait));
  }
  template <class Clock, class Span>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Span>& deadline)
      REDLATCH_TRIES_TO_LOCK_SHARED() {
    return internal::TryUntil(deadline,
                              [this](absl::Duration left) { return TryLockSharedFor(left); });
  }
  void unlock_shared() noexcept REDLATCH_UNLOCKS() { UnlockShared(); }

  // As RedisLockBase::Acquire(), for either side.
  absl::StatusOr<Lease> AcquireRead(const AcquireOptions& options = {}) {
    return AcquireShared(options);
  }
  absl::StatusOr<Lease> AcquireWrite(const AcquireOptions& options = {}) {
    return Acquire(options);
  }

  // As RedisLockBase::AcquireAsync(), for either side.
  void AcquireReadAsync(const AcquireOptions& options, AcquireCallback callback) {
    AcquireSharedAsync(options, std::move(callback));
  }
  void AcquireWriteAsync(const AcquireOptions& options, AcquireCallback callback) {
    AcquireAsync(options, std::move(callback));
  }
  template <internal::AwaitableAs<AcquireOptions> Options = AcquireOptionsView>
  Awaitable<absl::StatusOr<Lease>> AcquireReadAwaitable(Options&& options = {}) {
    return {options.stop, [this, its = AcquireOptions(options)](std::stop_token both,
                                                                AcquireCallback told) mutable {
              its.stop = std::move(both);
              AcquireSharedAsync(its, std::move(told));
            }};
  }
  template <internal::AwaitableAs<AcquireOptions> Options = AcquireOptionsView>
  Awaitable<absl::StatusOr<Lease>> AcquireWriteAwaitable(Options&& options = {}) {
    return AcquireAwaitable(options);
  }

  // The calling thread's read hold; see current() and hold_count() for its write hold.
  Hold current_read() const { return CurrentShared(); }
  int read_hold_count() const { return SharedHoldCount(); }

  // Each side as a Lockable, for std::scoped_lock and std::unique_lock. std::shared_lock takes the
  // lock itself. Thread-safe.
  class REDLATCH_LOCKABLE ReadView {
   public:
    explicit ReadView(ReadWriteLockBase& lock) : whole_(lock) {}
    ReadView(const ReadView&) = delete;
    ReadView& operator=(const ReadView&) = delete;

    void lock() REDLATCH_LOCKS() { whole_.lock_shared(); }
    bool try_lock() REDLATCH_TRIES_TO_LOCK() { return whole_.try_lock_shared(); }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) REDLATCH_TRIES_TO_LOCK() {
      return whole_.try_lock_shared_for(wait);
    }
    template <class Clock, class Span>
    bool try_lock_until(const std::chrono::time_point<Clock, Span>& deadline)
        REDLATCH_TRIES_TO_LOCK() {
      return whole_.try_lock_shared_until(deadline);
    }
    void unlock() noexcept REDLATCH_UNLOCKS() { whole_.unlock_shared(); }

    ReadWriteLockBase& whole() const { return whole_; }

   private:
    ReadWriteLockBase& whole_;
  };
  using WriteView = RedisLockBase;

  ReadView& read_lock() { return read_view_; }
  WriteView& write_lock() { return *this; }

 protected:
  using RedisLockBase::RedisLockBase;

 private:
  ReadView read_view_{*this};
};

}  // namespace redlatch

#endif  // REDLATCH_READ_WRITE_LOCK_BASE_H_
