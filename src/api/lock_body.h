#ifndef REDLATCH_SRC_API_LOCK_BODY_H_
#define REDLATCH_SRC_API_LOCK_BODY_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/redis_lock_base.h"
#include "src/base/mutex.h"
#include "src/lock/lock_handle.h"
#include "src/lock/lock_type.h"
#include "src/lock/reader_groups.h"

namespace redlatch {

// What a lock object is; a call that is under way keeps what it needs of it alive.
class RedisLockBase::LockBody : public std::enable_shared_from_this<RedisLockBase::LockBody> {
 public:
  LockBody(std::shared_ptr<internal::ClientCore> core, std::string_view name, LockOptions options,
           std::string_view key_kind)
      : core_(std::move(core)),
        name_(name),
        key_kind_(key_kind.data()),
        options_(std::make_shared<const LockOptions>(std::move(options))) {}

  // A simple lock of several names, each once and in their order; of one it is a SimpleLock.
  LockBody(std::shared_ptr<internal::ClientCore> core, std::vector<std::string> names,
           std::shared_ptr<const LockOptions> options);

  // What a call works with, also when the object goes meanwhile.
  struct Access {
    std::shared_ptr<internal::LockHandle> handle;
    std::shared_ptr<internal::ReaderGroups> readers;  // null: the lock has no shared side
    std::atomic<bool> gone{false};
  };

  // The object goes: its calls that wait end.
  void Close();

  const std::string& name() const { return name_; }
  bool several() const { return names_ != nullptr; }  // names, at one server
  const std::shared_ptr<internal::ClientCore>& core() const { return core_; }
  const std::shared_ptr<const LockOptions>& options() const { return options_; }

  // Null before the first use.
  internal::LockHandle* attached() const {
    return attached_.load(std::memory_order_acquire) ? access_->handle.get() : nullptr;
  }

  // Null before the first use, where there is no shared side, and where it keeps nothing.
  internal::ReaderGroups* keeping_readers() const {
    const bool keeps = options_->cache_for > absl::ZeroDuration();
    return keeps && attached_.load(std::memory_order_acquire) ? access_->readers.get() : nullptr;
  }
  // lock_shared() of what the client keeps. False: the general way is to be gone. Cheap.
  bool ReadAgain() const {
    internal::ReaderGroups* const readers = keeping_readers();
    return readers != nullptr && readers->LockAgain(options_);
  }

  absl::StatusOr<std::shared_ptr<Access>> Attach(const RedisLockBase& lock);

  // One side of a lock for an owner, with all that a call needs even after the object is gone.
  struct Side {
    std::shared_ptr<LockBody> body;
    std::shared_ptr<Access> access;
    std::shared_ptr<internal::LockHandle> handle;  // of the owner's holds; a writer's
    bool reads = false;
    Caller caller = {};

    // The calling thread's, as by Acquire() and lock().
    absl::StatusOr<internal::OwnedHold> Acquire(internal::Face face,
                                                const AcquireOptions& options) const;
    // Gives back what the calling thread has by lock(), if it still has it.
    void Unlock() const;
    internal::HoldRef OfThisThread() const { return Ask(&internal::LockHandle::OfThisThread); }
    internal::HoldRef Current() const { return Ask(&internal::LockHandle::Current); }

   private:
    internal::HoldRef Ask(internal::HoldRef (internal::LockHandle::*question)() const) const;
  };
  absl::StatusOr<Side> SideOf(const RedisLockBase& lock, bool reads, const Caller& caller);
  static absl::StatusOr<Lease> LeaseOf(absl::StatusOr<internal::OwnedHold> held);

  void AcquireAsync(const absl::StatusOr<Side>& side, const AcquireOptions& options,
                    internal::EventDriver::Whose whose, AcquireCallback callback);

  // Null where there is no shared side, or none for this process.
  internal::ReaderGroups* ReadersOf(const RedisLockBase& lock) {
    const bool there = Attach(lock).ok() && !core_->in_forked_child();
    return there ? access_->readers.get() : nullptr;
  }

  // kFailedPrecondition where the calling thread reads and would wait for itself.
  absl::Status RefuseUpgrade(const Access& access) const;

  internal::Want WantOf(const Access& access, internal::Face face, const Caller& caller,
                        const AcquireOptions& options) const;
  // The same for the exclusive side, after this client has given back a read grant that it cached.
  internal::Want WriteWantOf(const Access& access, internal::Face face, const Caller& caller,
                             const AcquireOptions& options) const;

 private:
  // What an asynchronous acquisition goes through, and where it goes on.
  struct Way {
    std::shared_ptr<internal::LockHandle> handle;
    internal::LockHandle::Elsewhere elsewhere = nullptr;
    internal::Want want = {};
  };
  absl::StatusOr<Way> WayTo(const absl::StatusOr<Side>& side, const AcquireOptions& options) const;
  absl::StatusOr<std::shared_ptr<internal::LockHandle>> SessionFor(const RedisLockBase& lock,
                                                                   const Access& access,
                                                                   const Owner& owner) const;
  absl::StatusOr<internal::OwnedHold> Read(const Access& access, internal::Face face,
                                           const AcquireOptions& options) const;
  absl::StatusOr<internal::LockType> PlanOf(const RedisLockBase& lock) const;

  const std::shared_ptr<internal::ClientCore> core_;
  const std::string name_;
  const std::unique_ptr<const std::vector<std::string>> names_;  // null: only that
  const char* const key_kind_;  // a literal of the library's; null: a user's class
  const std::shared_ptr<const LockOptions> options_;
  base::Mutex mu_;
  std::atomic<bool> attached_{false};
  std::shared_ptr<Access> access_;  // does not change once `attached_`
};

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_LOCK_BODY_H_
