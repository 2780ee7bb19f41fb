// A shared mutex for threads, processes and hosts: many readers, or one writer.
#ifndef REDLATCH_REENTRANT_READ_WRITE_LOCK_H_
#define REDLATCH_REENTRANT_READ_WRITE_LOCK_H_

#include <chrono>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "redlatch/client.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/internal/try_until.h"
#include "redlatch/lease.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// Where std::shared_timed_mutex stands, across processes. lock() is the writer's side, inherited;
// lock_shared() the reader's.
//
//   redlatch::ReentrantReadWriteLock lock(client, "prices");
//   { std::shared_lock reading(lock); Print(prices); }
//   { std::scoped_lock writing(lock); prices.Update(); }
//
//   the calling thread holds   lock()                          lock_shared()
//   nothing                    waits for readers and writers   waits for writers, waiting ones too
//   the write lock             holds once more                 holds both: then unlock() downgrades
//   a read lock                refused: it would wait for      holds once more, whoever waits
//                              itself
//
// Refused is resource_deadlock_would_occur for lock(), false for try_lock(), kFailedPrecondition
// for Acquire().
//
// A writer that waits holds back whoever comes to read after it, as long as its heartbeats tell
// that it lives. A reader that dies holds back nobody for longer than its own lease, though others
// go on reading. A writer's release lets the next writer in, or else all readers that wait.
//
// The readers of one client share a hold at the server: a reader joins one that is held, without a
// round trip, for its turn (5 ms by default) since the server said that no writer waits. Their
// leases are their own, but end together where that hold is lost.
//
// The fencing token of a reader is that of the last write before it: a reader that finds a larger
// one in the data has been overtaken. Several readers have the same.
class REDLATCH_EXPORT ReentrantReadWriteLock final : public RedisLockBase {
 public:
  enum class Policy {
    // Writers go before readers. A stream of writers without a gap starves readers.
    kWriterFirst,
    // Readers that waited through a write go before the next write.
    kPhaseFair,
  };

  ReentrantReadWriteLock(Client client, std::string_view name, LockOptions options = {},
                         Policy policy = Policy::kWriterFirst);
  ~ReentrantReadWriteLock() override;

  // The reader's std face; see RedisLockBase for the writer's, whose rules hold here too.
  void lock_shared() { LockShared(); }
  bool try_lock_shared() { return TryLockSharedFor(absl::ZeroDuration()); }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& wait) {
    return TryLockSharedFor(Duration(wait));
  }
  template <class Clock, class Span>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Span>& deadline) {
    return internal::TryUntil(deadline,
                              [this](absl::Duration left) { return TryLockSharedFor(left); });
  }
  void unlock_shared() noexcept { UnlockShared(); }

  // The status face.
  absl::StatusOr<Lease> AcquireRead(const AcquireOptions& options = {}) {
    return AcquireShared(options);
  }
  absl::StatusOr<Lease> AcquireWrite(const AcquireOptions& options = {}) {
    return Acquire(options);
  }

  // The asynchronous face; see RedisLockBase::AcquireAsync(), which is the writer's.
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

  // For work that crosses threads or processes: see Owner. Writers only.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;
  // The calling thread's read hold; see current() and hold_count() for its write hold.
  Hold current_read() const { return CurrentShared(); }
  int read_hold_count() const { return SharedHoldCount(); }

  // Each side as a Lockable, for std::scoped_lock and std::unique_lock. std::shared_lock takes the
  // lock itself.
  class ReadView {
   public:
    ReadView(const ReadView&) = delete;
    ReadView& operator=(const ReadView&) = delete;

    void lock() { lock_.lock_shared(); }
    bool try_lock() { return lock_.try_lock_shared(); }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) {
      return lock_.try_lock_shared_for(wait);
    }
    template <class Clock, class Span>
    bool try_lock_until(const std::chrono::time_point<Clock, Span>& deadline) {
      return lock_.try_lock_shared_until(deadline);
    }
    void unlock() noexcept { lock_.unlock_shared(); }

   private:
    friend class MultiLock;
    friend class ReentrantReadWriteLock;
    explicit ReadView(ReentrantReadWriteLock& lock) : lock_(lock) {}
    ReentrantReadWriteLock& lock_;
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
