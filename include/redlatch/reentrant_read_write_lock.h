// A shared mutex for threads, processes and hosts: many readers, or one writer.
#ifndef REDLATCH_REENTRANT_READ_WRITE_LOCK_H_
#define REDLATCH_REENTRANT_READ_WRITE_LOCK_H_

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "redlatch/client.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/internal/thread_annotations.h"
#include "redlatch/internal/try_until.h"
#include "redlatch/lease.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// Works like std::shared_timed_mutex, across processes. The writer's methods are those of
// RedisLockBase.
//
//   redlatch::ReentrantReadWriteLock lock(client, "prices");
//   { std::shared_lock reading(lock); Print(prices); }
//   { std::scoped_lock writing(lock); prices.Update(); }
//
//   this thread holds   lock()                            lock_shared()
//   nothing             waits for readers and writers     waits for writers, and for their wait
//                                                         markers
//   the write lock      holds again                       holds both: then unlock() downgrades
//   a read lock         refused: it would wait for        holds again, in any case
//                       itself
//
// "Refused" is resource_deadlock_would_occur for lock(), false for try_lock(), kFailedPrecondition
// for Acquire().
//
// A waiting writer leaves a wait marker. It holds back readers that come later, for as long as the
// writer's heartbeats arrive. A writer's release lets the next writer in or, if none waits, all
// waiting readers. A reader that dies holds back writers only until its own lease ends, even if
// other clients go on reading.
//
// The readers of one client share a grant. During the client's turn (LockOptions::turn), a reader
// joins that grant without a round trip. If the grant is lost, all its readers lose their leases. A
// reader's fencing token is that of the last write before it, so several readers have the same
// token. A reader that finds a larger token in the data has been overtaken by a writer.
class REDLATCH_EXPORT ReentrantReadWriteLock final : public RedisLockBase {
 public:
  enum class Policy {
    kWriterFirst,  // writers go before readers; writers without a pause starve readers
    kPhaseFair,    // readers that waited through a write go before the next write
  };

  ReentrantReadWriteLock(const Client& client, std::string_view name, LockOptions options = {},
                         Policy policy = Policy::kWriterFirst);
  ~ReentrantReadWriteLock() override;

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

  // For writers whose work crosses threads or processes: see Owner.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

  // The calling thread's read hold; see current() and hold_count() for its write hold.
  Hold current_read() const { return CurrentShared(); }
  int read_hold_count() const { return SharedHoldCount(); }

  // Each side as a Lockable, for std::scoped_lock and std::unique_lock. std::shared_lock takes the
  // lock itself. Thread-safe.
  class REDLATCH_LOCKABLE ReadView {
   public:
    explicit ReadView(ReentrantReadWriteLock& lock) : whole_(lock) {}
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

    ReentrantReadWriteLock& whole() const { return whole_; }

   private:
    ReentrantReadWriteLock& whole_;
  };
  using WriteView = RedisLockBase;

  ReadView& read_lock() { return read_view_; }
  WriteView& write_lock() { return *this; }

 private:
  LockScripts Scripts() const override;
  LockScripts SharedScripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
  std::vector<std::string> ExtraArgs() const override;

  const Policy policy_;
  ReadView read_view_{*this};
};

}  // namespace redlatch

#endif  // REDLATCH_REENTRANT_READ_WRITE_LOCK_H_
