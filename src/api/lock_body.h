// What lock objects are made of.
#ifndef REDLATCH_SRC_API_LOCK_BODY_H_
#define REDLATCH_SRC_API_LOCK_BODY_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/redis_lock_base.h"
#include "src/api/outcomes.h"
#include "src/base/atomic.h"
#include "src/base/mutex.h"
#include "src/lock/lock_handle.h"
#include "src/lock/lock_type.h"
#include "src/lock/reader_groups.h"

namespace redlatch {

// What a lock object does. A call that waits keeps it, even if the object is destroyed. `reads`: on
// the shared side.
class RedisLockBase::Body : public std::enable_shared_from_this<Body> {
 public:
  explicit Body(std::string name) : name_(std::move(name)) {}
  virtual ~Body() = default;

  const std::string& name() const { return name_; }
  // Its object, of which the virtual functions are called at the first use.
  virtual void SetObject(const RedisLockBase&) {}

  // lock() and its kin. `deadlock` becomes true if this thread would wait for itself.
  virtual absl::Status Lock(bool reads, const AcquireOptions& options, bool& deadlock) = 0;
  virtual void Unlock(bool reads) noexcept = 0;
  virtual absl::StatusOr<Lease> Acquire(bool reads, const Caller& caller,
                                        const AcquireOptions& options) = 0;
  using Whose = internal::EventDriver::Whose;
  virtual void AcquireAsync(bool reads, const Caller& caller, const AcquireOptions& options,
                            AcquireCallback callback, Whose whose) = 0;
  virtual Hold Current(bool reads) = 0;
  virtual int HoldCount(bool reads) = 0;
  virtual absl::StatusOr<LockInfo> Inspect() = 0;
  virtual absl::Status ForceRelease() = 0;
  // The object is being destroyed: calls that wait in it end.
  virtual void Close() = 0;

 private:
  const std::string name_;
};

// A lock of one lock state: of one name, or of several that one script takes.
class RedisLockBase::LockBody final : public Body {
 public:
  // `kind` is null for a user's class. Several `names` are each once and in their order.
  LockBody(std::shared_ptr<internal::ClientCore> core, std::vector<std::string> names,
           LockOptions options, const internal::LibraryKind* kind);

  bool several() const { return names_.size() > 1; }
  const std::shared_ptr<internal::ClientCore>& core() const { return core_; }
  const LockOptions& options() const { return *options_; }
  // Returns the handle of the caller's holds on the exclusive side, or why the caller cannot
  // acquire this side. Once it has succeeded, the body no longer needs the lock object.
  absl::StatusOr<std::shared_ptr<internal::LockHandle>> HandleFor(bool reads, const Caller& caller);
  internal::HoldRef OfThisThread(bool reads) {
    const auto handle = HandleOfThisThread(reads);
    return handle == nullptr ? internal::HoldRef() : handle->OfThisThread();
  }

  void SetObject(const RedisLockBase& object) override { object_ = &object; }
  absl::Status Lock(bool reads, const AcquireOptions& options, bool& deadlock) override;
  void Unlock(bool reads) noexcept override;
  absl::StatusOr<Lease> Acquire(bool reads, const Caller& caller,
                                const AcquireOptions& options) override;
  void AcquireAsync(bool reads, const Caller& caller, const AcquireOptions& options,
                    AcquireCallback callback, Whose whose) override;
  Hold Current(bool reads) override;
  int HoldCount(bool reads) override { return static_cast<int>(OfThisThread(reads).depth); }
  absl::StatusOr<LockInfo> Inspect() override;
  absl::Status ForceRelease() override;
  void Close() override;

 private:
  // Makes `handle_` and `readers_` at the first use; they do not change from then on. Fails if the
  // options are impossible, and in a forked child, where no mutex of the parent may be taken.
  absl::Status EnsureAttached() {
    if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
    return attached() ? absl::OkStatus() : Attach();
  }
  absl::Status Attach();
  absl::Status CheckOptions(const LockTraits& traits) const;
  bool attached() const { return attached_.load(std::memory_order_acquire); }
  absl::StatusOr<internal::LockType> TypeOf() const;
  bool caches() const { return options_->cache_for > absl::ZeroDuration(); }
  bool tells() const { return internal::TellsIfWanted(*options_); }
  // Returns null if this thread cannot have a hold on that side.
  std::shared_ptr<internal::LockHandle> HandleOfThisThread(bool reads);
  // kFailedPrecondition if the calling thread reads, so that to write it would wait for itself.
  // REQUIRES: the lock has a shared side.
  absl::Status RefuseUpgrade() const;
  internal::AcquireCall CallOf(internal::Face face, const Caller& caller,
                               const AcquireOptions& options) const;
  absl::StatusOr<internal::OwnedHold> Take(internal::Face face, bool reads, const Caller& caller,
                                           const AcquireOptions& options);
  absl::StatusOr<internal::OwnedHold> Read(internal::AcquireCall call) const;
  absl::Status Refuse(absl::StatusCode code, std::string_view why) const;

  const std::shared_ptr<internal::ClientCore> core_;
  const std::vector<std::string> names_;
  const internal::LibraryKind* const kind_;
  const std::shared_ptr<const LockOptions> options_;
  const RedisLockBase* object_ = nullptr;
  base::Atomic<bool> gone_{false};
  base::Mutex mu_;
  base::Atomic<bool> attached_{false};
  std::shared_ptr<internal::LockHandle> handle_;
  bool locks_again_ = false;  // a thread may lock without asking the server
  std::unique_ptr<const internal::LockType> owners_type_;  // null: the lock has no Owners
  std::shared_ptr<internal::ReaderGroups> readers_;        // null: the lock has no shared side
};

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_LOCK_BODY_H_
