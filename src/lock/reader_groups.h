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

// The shared side of one lock on one client: which grant a reading thread joins.
//
// Each grant has a session, an entry and a machine of its own: a *group*. Readers join the latest
// group. Where they may not, as a writer waits since that group was let in, whoever comes founds
// the next one, which queues behind that writer, while the first group finishes. A group that is
// over is used again.
//
// A thread that writes and comes to read has a group to itself: the server lets it in beside its
// own write hold.
//
// Thread-safe. Not to be called in a forked child.
class ReaderGroups {
 public:
  ReaderGroups(std::shared_ptr<ClientCore> core, std::string_view name, LockType type)
      : core_(std::move(core)), name_(name), plan_(std::move(type)) {}
  ReaderGroups(const ReaderGroups&) = delete;
  ReaderGroups& operator=(const ReaderGroups&) = delete;

  absl::StatusOr<OwnedHold> Acquire(Want want);
  // lock_shared(), with options that keep, and unlock_shared() of what this client keeps. False:
  // the general way is to be gone, as in a forked child. Cheap.
  bool LockAgain(const std::shared_ptr<const LockOptions>& options);
  bool LeaveCachedNow();
  // Whom one is to join who writes nothing and may not join `left`; null: he has tried none.
  absl::StatusOr<std::shared_ptr<LockHandle>> NextGroup(const Entry* left);

  // The group in which the calling thread reads, or lost what it read by; null: none.
  std::shared_ptr<LockHandle> OfThisThread() const;
  // It reads, at this moment.
  bool ThisThreadReads() const;

  // Gives back a cached read grant, for a thread of this client that wants to write. Its wait
  // begins.
  void GiveBack(Want& want);

  // A lock object comes, or goes: with the last one, the reads that have no lease end.
  void AddObject();
  void RemoveObject();

 private:
  // A new group, of one that has this write grant, or of all who come; 0.
  absl::StatusOr<std::shared_ptr<LockHandle>> Found(GrantId write_grant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<LockHandle> latest() const {
    const base::MutexLock lock(mu_);
    return latest_;
  }

  const std::shared_ptr<ClientCore> core_;
  const std::string name_;
  const LockType plan_;
  mutable base::Mutex mu_;
  std::vector<std::shared_ptr<LockHandle>> groups_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<LockHandle> latest_ ABSL_GUARDED_BY(mu_);  // among them; null before the first
  int objects_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_READER_GROUPS_H_
