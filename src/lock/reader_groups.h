#ifndef REDLATCH_SRC_LOCK_READER_GROUPS_H_
#define REDLATCH_SRC_LOCK_READER_GROUPS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/lock/lock_handle.h"
#include "src/lock/lock_type.h"

namespace redlatch::internal {

// The readers of one read-write lock on one client. Decides which grant a reading thread joins.
//
// Each grant has a handle, an entry and a lock state of its own: a *group*. A reader joins the
// latest group. If it may not, because a writer has been waiting since that group was let in, the
// reader starts the next group, which queues behind the writer while the first group finishes.
// Groups that are over are reused.
//
// A thread that reads while it has the write lock gets its own group: the server lets it in beside
// its write hold.
//
// Thread-safe. Must not be called in a forked child.
class ReaderGroups {
 public:
  ReaderGroups(std::shared_ptr<ClientCore> core, std::string_view name, LockType type)
      : core_(std::move(core)), name_(name), type_(std::move(type)) {}
  ReaderGroups(const ReaderGroups&) = delete;
  ReaderGroups& operator=(const ReaderGroups&) = delete;

  absl::StatusOr<OwnedHold> Acquire(AcquireCall call);
  // lock_shared() with cached options, and unlock_shared() of a hold that is then cached. Return
  // false if the caller must take the slow path, as in a forked child. Never block.
  bool LockAgain(const std::shared_ptr<const LockOptions>& options);
  bool LeaveCachedNow();
  // Returns the group for a reader that does not write and may not join `left`, or has tried none
  // if that is null.
  absl::StatusOr<std::shared_ptr<LockHandle>> NextGroup(const Entry* left);

  // The group in which the calling thread reads, or lost its hold; null if there is none.
  std::shared_ptr<LockHandle> OfThisThread() const;

  // Gives back a cached read grant if a thread of this client wants to write. Sets the beginning of
  // its wait.
  void GiveBack(AcquireCall& call);

  // Registers or unregisters a lock object. With the last one, holds by lock_shared() end.
  void AddObject();
  void RemoveObject();

 private:
  // Creates a group for the thread with this write grant, or for all readers if it is 0.
  absl::StatusOr<std::shared_ptr<LockHandle>> Found(GrantId write_grant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<LockHandle> latest() const {
    const base::MutexLock lock(mu_);
    return latest_;
  }

  const std::shared_ptr<ClientCore> core_;
  const std::string name_;
  const LockType type_;
  mutable base::Mutex mu_;
  std::vector<std::shared_ptr<LockHandle>> groups_ ABSL_GUARDED_BY(mu_);
  // one of `groups_`; null before the first
  std::shared_ptr<LockHandle> latest_ ABSL_GUARDED_BY(mu_);
  int objects_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_READER_GROUPS_H_
