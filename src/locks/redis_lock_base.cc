#include "redlatch/redis_lock_base.h"

#include <atomic>
#include <system_error>
#include <utility>

#include "redlatch/status.h"
#include "src/base/mutex.h"
#include "src/engine/handle.h"
#include "src/engine/plan.h"
#include "src/engine/readers.h"
#include "src/locks/throw.h"

namespace redlatch {
namespace {

[[noreturn]] void ThrowDeadlock(const absl::Status& status) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                          std::string(status.message()));
}

}  // namespace

// What a lock object is; a call that is under way keeps what it needs of it alive.
class RedisLockBase::Body {
 public:
  Body(std::shared_ptr<engine::Core> core, std::string_view name, LockOptions options)
      : core_(std::move(core)),
        name_(name),
        options_(std::make_shared<const LockOptions>(std::move(options))) {}

  ~Body() {
    if (core_->in_forked_child()) return;
    if (handle_ != nullptr) handle_->StopAll(this);
    if (shared_ == nullptr) return;
    shared_->gone = true;
    shared_->readers->Leave(this);
  }

  const std::string& name() const { return name_; }
  const std::shared_ptr<engine::Core>& core() const { return core_; }
  const std::shared_ptr<const LockOptions>& options() const { return options_; }

  // Null before the first use.
  engine::Handle* attached() const {
    return attached_.load(std::memory_order_acquire) ? handle_.get() : nullptr;
  }

  absl::StatusOr<std::shared_ptr<engine::Handle>> Attach(const RedisLockBase& lock) {
    if (attached_.load(std::memory_order_acquire)) return handle_;
    if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
    const base::MutexLock guard(mu_);
    if (handle_ == nullptr) {
      auto made = engine::Handle::Attach(core_, name_, {}, PlanOf(lock));
      if (!made.ok()) return made.status();
      if (const LockScripts scripts = lock.SharedScripts(); !scripts.acquire.body.empty()) {
        engine::Plan shared{.scripts = scripts,
                            .traits = lock.Traits(),
                            .sharing = engine::Sharing::kJoined,
                            .extra_keys = lock.ExtraKeys()};
        shared_ = std::make_shared<Shared>();
        shared_->readers = core_->readers().Of(name_, [&] {
          return std::make_shared<engine::Readers>(core_, name_, std::move(shared));
        });
        shared_->readers->Enter();
      }
      handle_ = *std::move(made);
      attached_.store(true, std::memory_order_release);
    }
    return handle_;
  }

  absl::StatusOr<std::shared_ptr<engine::Handle>> AttachFor(const RedisLockBase& lock,
                                                            const Owner& owner) {
    auto own = Attach(lock);
    if (!own.ok() || owner.is_calling_thread()) return own;
    if (!lock.Traits().reentrant) {
      return absl::InvalidArgumentError("lock \"" + name_ +
                                        "\": an Owner is for reentrant locks; leave it out");
    }
    return engine::Handle::Attach(core_, name_, "user:" + std::string(owner.name()), PlanOf(lock));
  }

  absl::StatusOr<engine::Readers::Entered> Read(const RedisLockBase& lock, engine::Want want);

  // Null where there is no shared side, or none for this process.
  engine::Readers* ReadersOf(const RedisLockBase& lock) {
    const bool there = Attach(lock).ok() && !core_->in_forked_child() && shared_ != nullptr;
    return there ? shared_->readers.get() : nullptr;
  }

  // kFailedPrecondition where the calling thread reads and would wait for itself.
  absl::Status RefuseUpgrade() const {
    if (shared_ == nullptr || core_->in_forked_child() || handle_->OfThisThread().depth > 0 ||
        !shared_->readers->ThisThreadReads()) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError("lock \"" + name_ +
                                         "\": this thread reads it, and would wait for itself to "
                                         "end; release the read lock first, then write");
  }

  engine::Want WantOf(engine::Face face, absl::Duration wait) const {
    return {.face = face,
            .terms = {.lease = options_->lease},
            .wait = wait,
            .options = options_,
            .object = this};
  }
  engine::Want WantOf(const AcquireOptions& options) const {
    engine::Want want = WantOf(engine::Face::kStatus, options.wait);
    want.stop = options.stop;
    if (options.lease) want.terms = {.lease = *options.lease, .manual = true};
    return want;
  }

 private:
  // What a call on the shared side works with, also when the object goes meanwhile.
  struct Shared {
    std::shared_ptr<engine::Readers> readers;
    std::atomic<bool> gone{false};
  };

  static engine::Plan PlanOf(const RedisLockBase& lock) {
    return {.scripts = lock.Scripts(),
            .traits = lock.Traits(),
            .extra_keys = lock.ExtraKeys(),
            .extra_args = lock.ExtraArgs()};
  }

  const std::shared_ptr<engine::Core> core_;
  const std::string name_;
  const std::shared_ptr<const LockOptions> options_;
  base::Mutex mu_;
  std::atomic<bool> attached_{false};
  // Do not change once `attached_`.
  std::shared_ptr<engine::Handle> handle_;
  std::shared_ptr<Shared> shared_;
};

RedisLockBase::RedisLockBase(Client client, std::string_view name, LockOptions options)
    : body_(std::make_unique<Body>(std::move(client.core_), name, std::move(options))) {}

RedisLockBase::~RedisLockBase() = default;

const std::string& RedisLockBase::name() const { return body_->name(); }

void RedisLockBase::lock() {
  if (engine::Handle* const held = body_->attached();
      held != nullptr && held->Reenter(engine::Face::kStd)) {
    return;
  }
  const auto handle = body_->Attach(*this);
  if (!handle.ok()) Throw(handle.status());
  if (const absl::Status refused = body_->RefuseUpgrade(); !refused.ok()) ThrowDeadlock(refused);
  const auto won = (*handle)->Acquire(body_->WantOf(engine::Face::kStd, absl::InfiniteDuration()));
  if (won.ok()) return;
  if (absl::IsFailedPrecondition(won.status()) && (*handle)->OfThisThread().depth > 0) {
    ThrowDeadlock(won.status());
  }
  Throw(won.status());
}

bool RedisLockBase::try_lock() { return TryLockFor(absl::ZeroDuration()); }

bool RedisLockBase::TryLockFor(absl::Duration wait) {
  const auto handle = body_->Attach(*this);
  if (!handle.ok()) Throw(handle.status());
  if (!body_->RefuseUpgrade().ok()) return false;
  const auto won = (*handle)->Acquire(body_->WantOf(engine::Face::kStd, wait));
  if (won.ok()) return true;
  if (IsBusy(won.status())) return false;
  if (absl::IsFailedPrecondition(won.status()) && (*handle)->OfThisThread().depth > 0) return false;
  Throw(won.status());
}

void RedisLockBase::unlock() noexcept {
  if (engine::Handle* const handle = body_->attached()) return handle->Unlock();
  if (const auto handle = body_->Attach(*this); handle.ok()) return (*handle)->Unlock();
  if (body_->core()->in_forked_child()) return;
  body_->core()->observer().OnMisuse(
      name(), "unlock() by a thread that does not hold it; nothing was released");
}

absl::StatusOr<Lease> RedisLockBase::Acquire(const AcquireOptions& options) {
  auto handle = body_->AttachFor(*this, options.owner);
  if (!handle.ok()) return handle.status();
  if (absl::Status refused = body_->RefuseUpgrade(); !refused.ok()) return refused;
  const auto won = (*handle)->Acquire(body_->WantOf(options));
  if (!won.ok()) return won.status();
  return Lease(*std::move(handle), won->tenure, won->token);
}

absl::StatusOr<Lease> RedisLockBase::TryAcquire() {
  return Acquire({.wait = absl::ZeroDuration()});
}

Hold RedisLockBase::current() const {
  auto handle = body_->Attach(*this);
  if (!handle.ok()) return {};
  const auto standing = (*handle)->OfThisThread();
  if (standing.tenure == 0) return {};
  return Hold(*std::move(handle), standing.tenure, standing.token);
}

int RedisLockBase::hold_count() const {
  const auto handle = body_->Attach(*this);
  return handle.ok() ? static_cast<int>((*handle)->OfThisThread().depth) : 0;
}

absl::StatusOr<engine::Readers::Entered> RedisLockBase::Body::Read(const RedisLockBase& lock,
                                                                   engine::Want want) {
  const auto handle = Attach(lock);
  if (!handle.ok()) return handle.status();
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const std::shared_ptr<Shared> shared = shared_;
  if (shared == nullptr) {
    return absl::FailedPreconditionError("lock \"" + name_ + "\" has no shared side");
  }
  if (const auto writes = (*handle)->Pin(); writes.depth > 0) {
    want.write_token = writes.token;
    want.write_hold = writes.hold;
  }
  want.gone = &shared->gone;
  const bool leased = want.face == engine::Face::kStatus;
  auto entered = shared->readers->Acquire(std::move(want));
  if (entered.ok() && leased) {
    // Whoever has the lease may come again by another object, to the same readers.
    struct Kept {
      std::shared_ptr<engine::Readers> readers;
      std::shared_ptr<engine::Handle> group;
    };
    auto kept = std::make_shared<Kept>(Kept{shared->readers, std::move(entered->group)});
    engine::Handle* const group = kept->group.get();
    entered->group = std::shared_ptr<engine::Handle>(std::move(kept), group);
  }
  return entered;
}

void RedisLockBase::LockShared() {
  const auto entered =
      body_->Read(*this, body_->WantOf(engine::Face::kStd, absl::InfiniteDuration()));
  if (!entered.ok()) Throw(entered.status());
}

bool RedisLockBase::TryLockSharedFor(absl::Duration wait) {
  const auto entered = body_->Read(*this, body_->WantOf(engine::Face::kStd, wait));
  if (!entered.ok() && !IsBusy(entered.status())) Throw(entered.status());
  return entered.ok();
}

void RedisLockBase::UnlockShared() noexcept {
  if (engine::Readers* const readers = body_->ReadersOf(*this)) {
    if (const auto group = readers->OfThisThread()) return group->Unlock();
  }
  if (body_->core()->in_forked_child()) return;
  constexpr std::string_view kWhat =
      "unlock_shared() by a thread that does not hold it; nothing was released";
  if (engine::Handle* const handle = body_->attached()) return handle->Misuse(kWhat);
  body_->core()->observer().OnMisuse(name(), kWhat);
}

absl::StatusOr<Lease> RedisLockBase::AcquireShared(const AcquireOptions& options) {
  if (!options.owner.is_calling_thread()) {
    return absl::InvalidArgumentError("lock \"" + name() +
                                      "\": an Owner is for writers; leave it out");
  }
  auto entered = body_->Read(*this, body_->WantOf(options));
  if (!entered.ok()) return entered.status();
  return Lease(std::move(entered->group), entered->won.tenure, entered->won.token);
}

Hold RedisLockBase::CurrentShared() const {
  const engine::Readers* const readers = body_->ReadersOf(*this);
  auto group = readers == nullptr ? nullptr : readers->OfThisThread();
  if (group == nullptr) return {};
  const auto standing = group->OfThisThread();
  return Hold(std::move(group), standing.tenure, standing.token);
}

int RedisLockBase::SharedHoldCount() const {
  const engine::Readers* const readers = body_->ReadersOf(*this);
  const auto group = readers == nullptr ? nullptr : readers->OfThisThread();
  return group == nullptr ? 0 : static_cast<int>(group->OfThisThread().depth);
}

absl::StatusOr<LockInfo> RedisLockBase::Inspect() const {
  const auto handle = body_->Attach(*this);
  if (!handle.ok()) return handle.status();
  return (*handle)->Inspect();
}

absl::Status RedisLockBase::ForceRelease() {
  const auto handle = body_->Attach(*this);
  if (!handle.ok()) return handle.status();
  return (*handle)->ForceRelease();
}

}  // namespace redlatch
