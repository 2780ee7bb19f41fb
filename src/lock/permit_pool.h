#ifndef REDLATCH_SRC_LOCK_PERMIT_POOL_H_
#define REDLATCH_SRC_LOCK_PERMIT_POOL_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/lock/lock_handle.h"
#include "src/lock/lock_type.h"

namespace redlatch::internal {

// A semaphore of one client. Each acquisition has an entry and a handle of its own while it waits
// or holds; they are reused afterwards.
//
// Thread-safe. Must not be called in a forked child, except to destroy objects and permits.
class PermitPool : public std::enable_shared_from_this<PermitPool> {
 public:
  PermitPool(std::shared_ptr<ClientCore> core, std::string_view name, LockType type)
      : core_(std::move(core)), name_(name), type_(std::move(type)) {}
  PermitPool(const PermitPool&) = delete;
  PermitPool& operator=(const PermitPool&) = delete;

  absl::StatusOr<OwnedHold> Acquire(const AcquireCall& call);

  // Keeps a permit for the client's threads together. Returns kCancelled if no semaphore object is
  // left, and kResourceExhausted if memory is lacking; the permit is then released.
  absl::Status Keep(OwnedHold hold);
  // Releases that many of them, lost ones first: a thread that lost its permit may still be
  // working, so the permits of other threads must not be released in its place. Returns
  // kFailedPrecondition and releases none if there are fewer.
  absl::Status Release(size_t count);

  // Returns a handle for scripts that are not part of a hold.
  absl::StatusOr<std::shared_ptr<LockHandle>> Borrow() { return Lend(/*cached=*/false); }

  // The same, but the handle is not reused and does not keep the pool alive.
  absl::StatusOr<std::shared_ptr<LockHandle>> Fresh() const {
    return LockHandle::Attach(core_, name_, core_->FreshId(), type_);
  }

  // Registers or unregisters an object. Its waiting calls end; with the last object, permits given
  // to Keep() are released.
  void AddObject();
  void RemoveObject(const void* object);

 private:
  class Loan;

  // Lends a handle, if possible one with a cached permit.
  absl::StatusOr<std::shared_ptr<LockHandle>> Lend(bool cached);
  // Takes back a handle that was borrowed, unless its permit is not over.
  bool Reclaim(const std::shared_ptr<LockHandle>& handle);
  void CollectLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<ClientCore> core_;
  const std::string name_;
  const LockType type_;
  base::Mutex mu_;
  std::deque<std::shared_ptr<LockHandle>> free_ ABSL_GUARDED_BY(mu_);
  // Those whose permits were cached when they came back, the latest one last.
  std::vector<std::shared_ptr<LockHandle>> cached_ ABSL_GUARDED_BY(mu_);
  std::vector<OwnedHold> permits_ ABSL_GUARDED_BY(mu_);
  std::vector<OwnedHold> lost_ ABSL_GUARDED_BY(mu_);  // the lost ones of them, as far as is known
  uint64_t losses_seen_ ABSL_GUARDED_BY(mu_) = 0;
  int objects_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_PERMIT_POOL_H_
