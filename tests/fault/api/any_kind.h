// Whatever one can hold exclusively, by one name: a lock of each kind, or a semaphore's only
// permit.
#ifndef REDLATCH_TESTS_FAULT_API_ANY_KIND_H_
#define REDLATCH_TESTS_FAULT_API_ANY_KIND_H_

#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/lease.h"
#include "redlatch/permit.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"

namespace redlatch {

inline constexpr std::string_view kAllKinds[] = {"simple", "reentrant", "read_write", "semaphore"};

// A Lease or a Permit.
class AnyHold {
 public:
  AnyHold(Lease lease) : lease_(std::move(lease)) {}      // NOLINT(google-explicit-constructor)
  AnyHold(Permit permit) : permit_(std::move(permit)) {}  // NOLINT(google-explicit-constructor)

  bool valid() const { return lease_.valid() || permit_.valid(); }
  absl::Status Release() { return permit_.count() > 0 ? permit_.Release() : lease_.Release(); }

 private:
  Lease lease_;
  Permit permit_;
};

class AnyKind {
 public:
  AnyKind(std::string_view kind, const Client& client, absl::Duration lease) {
    if (kind == "simple") {
      lock_ = std::make_unique<SimpleLock>(client, "lock", LockOptions{lease});
    } else if (kind == "reentrant") {
      lock_ = std::make_unique<ReentrantLock>(client, "lock", LockOptions{lease});
    } else if (kind == "read_write") {
      lock_ = std::make_unique<ReentrantReadWriteLock>(client, "lock", LockOptions{lease});
    } else {
      semaphore_ = std::make_unique<Semaphore>(client, "lock", 1, SemaphoreOptions{lease});
    }
  }

  absl::StatusOr<AnyHold> Acquire(const AcquireOptions& options = {}) {
    if (lock_ != nullptr) return Any(lock_->Acquire(options));
    return Any(semaphore_->Acquire(1, options));
  }
  absl::StatusOr<LockInfo> Inspect() {
    return lock_ != nullptr ? lock_->Inspect() : semaphore_->Inspect();
  }

 private:
  template <class Hold>
  static absl::StatusOr<AnyHold> Any(absl::StatusOr<Hold> hold) {
    if (!hold.ok()) return hold.status();
    return AnyHold(*std::move(hold));
  }

  std::unique_ptr<RedisLockBase> lock_;
  std::unique_ptr<Semaphore> semaphore_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_FAULT_API_ANY_KIND_H_
