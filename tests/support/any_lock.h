// One class for everything that can be held exclusively: a lock of any class, or all permits of a
// semaphore.
#ifndef REDLATCH_TESTS_SUPPORT_ANY_LOCK_H_
#define REDLATCH_TESTS_SUPPORT_ANY_LOCK_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lease.h"
#include "redlatch/permit.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/semaphore.h"

namespace redlatch::support {

// A Lease or a Permit.
class AnyHold {
 public:
  AnyHold() = default;
  AnyHold(Lease lease) : lease_(std::move(lease)) {}      // NOLINT(google-explicit-constructor)
  AnyHold(Permit permit) : permit_(std::move(permit)) {}  // NOLINT(google-explicit-constructor)

  bool valid() const { return lease_.valid() || permit_.valid(); }
  absl::Duration remaining() const {
    return of_permits() ? permit_.remaining() : lease_.remaining();
  }
  std::stop_token lost() const { return of_permits() ? permit_.lost() : lease_.lost(); }
  // Not set for permits.
  FencingToken fencing_token() const { return lease_.fencing_token(); }
  absl::Status Extend(absl::Duration lease) {
    return of_permits() ? permit_.Extend(lease) : lease_.Extend(lease);
  }
  absl::Status Release() { return of_permits() ? permit_.Release() : lease_.Release(); }

 private:
  bool of_permits() const { return permit_.count() > 0; }

  Lease lease_;
  Permit permit_;
};

class AnyLock {
 public:
  explicit AnyLock(std::unique_ptr<RedisLockBase> lock) : lock_(std::move(lock)) {}
  AnyLock(std::unique_ptr<Semaphore> semaphore, int64_t permits)
      : semaphore_(std::move(semaphore)), permits_(permits) {}

  const std::string& name() const { return lock_ != nullptr ? lock_->name() : semaphore_->name(); }
  absl::StatusOr<AnyHold> Acquire(const AcquireOptions& options = {}) {
    if (lock_ != nullptr) return Any(lock_->Acquire(options));
    return Any(semaphore_->Acquire(permits_, options));
  }
  absl::StatusOr<AnyHold> TryAcquire() {
    return lock_ != nullptr ? Any(lock_->TryAcquire()) : Any(semaphore_->TryAcquire(permits_));
  }
  absl::StatusOr<LockInfo> Inspect() const {
    return lock_ != nullptr ? lock_->Inspect() : semaphore_->Inspect();
  }

  absl::Status ForceRelease() {
    return lock_ != nullptr ? lock_->ForceRelease() : semaphore_->ForceRelease();
  }

  // The interface of std::mutex; of a semaphore, it takes one permit.
  void lock() { lock_ != nullptr ? lock_->lock() : semaphore_->acquire(); }
  bool try_lock() { return lock_ != nullptr ? lock_->try_lock() : semaphore_->try_acquire(); }
  bool try_lock_for(std::chrono::milliseconds wait) {
    return lock_ != nullptr ? lock_->try_lock_for(wait) : semaphore_->try_acquire_for(wait);
  }
  void unlock() { lock_ != nullptr ? lock_->unlock() : semaphore_->release(); }

 private:
  template <class Held>
  static absl::StatusOr<AnyHold> Any(absl::StatusOr<Held> held) {
    if (!held.ok()) return held.status();
    return AnyHold(*std::move(held));
  }

  std::unique_ptr<RedisLockBase> lock_;
  std::unique_ptr<Semaphore> semaphore_;
  int64_t permits_ = 0;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_ANY_LOCK_H_
