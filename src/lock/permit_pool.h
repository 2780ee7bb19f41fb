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

// A semaphore on one client. Each acquisition has a session, an entry and a machine to itself for
// as long as it waits or holds; those that are done are used again.
//
// Thread-safe. Not to be called in a forked child, except that objects and what it handed out may
// go there.
class PermitPool : public std::enable_shared_from_this<PermitPool> {
 public:
  PermitPool(std::shared_ptr<ClientCore> core, std::string_view name, LockType type)
      : core_(std::move(core)), name_(name), plan_(std::move(type)) {}
  PermitPool(const PermitPool&) = delete;
  PermitPool& operator=(const PermitPool&) = delete;

  absl::StatusOr<OwnedHold> Acquire(const Want& want);

  // Those that belong to the client's threads together, one permit each. kCancelled where no object
  // is left, kResourceExhausted for lack of memory: it went back.
  absl::Status Keep(OwnedHold hold);
  // Gives so many of them back, first those that were lost: whoever lost one still works, or did,
  // and as long as he has not given it back another's must not seem free. kFailedPrecondition, and
  // nothing else, where there are fewer.
  absl::Status Release(size_t count);

  // A session for scripts that are no part of a hold.
  absl::StatusOr<std::shared_ptr<LockHandle>> Borrow();

  // The same, for nobody else afterwards: it keeps not this.
  absl::StatusOr<std::shared_ptr<LockHandle>> Fresh() const {
    return LockHandle::Attach(core_, name_, core_->FreshId(), plan_);
  }

  // An object comes, or goes: its calls that wait end, and with the last object those that Keep()
  // was given go back.
  void AddObject();
  void RemoveObject(const void* object);

 private:
  // Of a session that was borrowed.
  void Reclaim(std::shared_ptr<LockHandle> handle);
  void SortOutLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<ClientCore> core_;
  const std::string name_;
  const LockType plan_;
  base::Mutex mu_;
  std::deque<std::shared_ptr<LockHandle>> free_ ABSL_GUARDED_BY(mu_);
  std::vector<OwnedHold> kept_ ABSL_GUARDED_BY(mu_);
  std::vector<OwnedHold> lost_ ABSL_GUARDED_BY(mu_);  // of them, as far as is known
  uint64_t losses_seen_ ABSL_GUARDED_BY(mu_) = 0;
  int objects_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_PERMIT_POOL_H_
