#include "redlatch/redis_lock_base.h"

#include <atomic>
#include <system_error>
#include <utility>

#include "redlatch/status.h"
#include "src/api/throw.h"
#include "src/base/mutex.h"
#include "src/base/no_cancellation.h"
#include "src/engine/protocol/plan.h"
#include "src/engine/runtime/handle.h"
#include "src/engine/shared/readers.h"

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
  Body(std::shared_ptr<engine::Core> core, std::string_view name, LockOptions options,
       std::string_view key_kind)
      : core_(std::move(core)),
        name_(name),
        key_kind_(key_kind),
        options_(std::make_shared<const LockOptions>(std::move(options))) {}

  // What a call works with, also when the object goes meanwhile.
  struct Access {
    std::shared_ptr<engine::Handle> handle;
    std::shared_ptr<engine::Readers> readers;  // null: the lock has no shared side
    std::atomic<bool> gone{false};
  };

  ~Body() {
    if (access_ == nullptr || core_->in_forked_child()) return;
    access_->gone = true;
    access_->handle->Leave(this);
    if (access_->readers != nullptr) access_->readers->Leave();
  }

  const std::string& name() const { return name_; }
  const std::shared_ptr<engine::Core>& core() const { return core_; }
  const std::shared_ptr<const LockOptions>& options() const { return options_; }

  // Null before the first use.
  engine::Handle* attached() const {
    return attached_.load(std::memory_order_acquire) ? access_->handle.get() : nullptr;
  }

  absl::StatusOr<std::shared_ptr<Access>> Attach(const RedisLockBase& lock) {
    if (attached_.load(std::memory_order_acquire)) return access_;
    if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
    const base::MutexLock guard(mu_);
    if (access_ == nullptr) {
      const absl::StatusOr<engine::Plan> plan = PlanOf(lock);
      if (!plan.ok()) return plan.status();
      auto made = engine::Handle::Attach(core_, name_, {}, *plan);
      if (!made.ok()) return made.status();
      auto access = std::make_shared<Access>();
      if (const LockScripts scripts = lock.SharedScripts(); !scripts.acquire.body.empty()) {
        engine::Plan shared{.scripts = scripts,
                            .traits = plan->traits,
                            .sharing = engine::Sharing::kJoined,
                            .keys = plan->keys};
        access->readers = core_->readers().Of(name_, [&] {
          return std::make_shared<engine::Readers>(core_, name_, std::move(shared));
        });
        access->readers->Enter();
      }
      access->handle = *std::move(made);
      access->handle->Enter();
      access_ = std::move(access);
      attached_.store(true, std::memory_order_release);
    }
    return access_;
  }

  // The handle for holds of that owner.
  absl::StatusOr<std::shared_ptr<engine::Handle>> HandleFor(const RedisLockBase& lock,
                                                            const Access& access,
                                                            const Owner& owner) const {
    if (owner.is_calling_thread()) return access.handle;
    if (!lock.Traits().reentrant) {
      return absl::InvalidArgumentError("lock \"" + name_ +
                                        "\": an Owner is for reentrant locks; leave it out");
    }
    const absl::StatusOr<engine::Plan> plan = PlanOf(lock);
    if (!plan.ok()) return plan.status();
    return engine::Handle::Attach(core_, name_, "user:" + std::string(owner.name()), *plan);
  }

  absl::StatusOr<engine::Readers::Entered> Read(const RedisLockBase& lock, engine::Face face,
                                                const AcquireOptions& options);

  // Null where there is no shared side, or none for this process.
  engine::Readers* ReadersOf(const RedisLockBase& lock) {
    const bool there = Attach(lock).ok() && !core_->in_forked_child();
    return there ? access_->readers.get() : nullptr;
  }

  // kFailedPrecondition where the calling thread reads and would wait for itself.
  absl::Status RefuseUpgrade(const Access& access) const {
    if (access.readers == nullptr || core_->in_forked_child() ||
        access.handle->OfThisThread().depth > 0 || !access.readers->ThisThreadReads()) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError("lock \"" + name_ +
                                         "\": this thread holds it for reading, and would wait for "
                                         "itself; release the read lock before you write");
  }

  engine::Want WantOf(const Access& access, engine::Face face,
                      const AcquireOptions& options) const {
    engine::Terms terms{.lease = options.lease.value_or(options_->lease),
                        .manual = options.lease.has_value(),
                        .whole = options.whole_lease};
    if (!options.args.empty()) {
      terms.args = std::make_shared<const std::vector<std::string>>(options.args);
    }
    return {.face = face,
            .terms = std::move(terms),
            .wait = options.wait,
            .stop = options.stop,
            .options = options_,
            .object = this,
            .gone = &access.gone};
  }

 private:
  absl::StatusOr<engine::Plan> PlanOf(const RedisLockBase& lock) const {
    const LockTraits traits = lock.Traits();
    absl::StatusOr<engine::KeyNames> keys;
    if (key_kind_.empty()) {
      keys = engine::UsersKeyNames(traits.kind, lock.ExtraKeys());
      if (!keys.ok()) {
        return absl::InvalidArgumentError("lock \"" + name_ +
                                          "\": " + std::string(keys.status().message()));
      }
    } else {
      keys = engine::KeyNames(key_kind_, lock.ExtraKeys());
    }
    return engine::Plan{.scripts = lock.Scripts(),
                        .traits = traits,
                        .keys = *std::move(keys),
                        .extra_args = lock.ExtraArgs()};
  }

  const std::shared_ptr<engine::Core> core_;
  const std::string name_;
  const std::string_view key_kind_;  // empty: a user's class
  const std::shared_ptr<const LockOptions> options_;
  base::Mutex mu_;
  std::atomic<bool> attached_{false};
  std::shared_ptr<Access> access_;  // does not change once `attached_`
};

RedisLockBase::RedisLockBase(Client client, std::string_view name, LockOptions options)
    : RedisLockBase(std::move(client), name, std::move(options), {}) {}

RedisLockBase::RedisLockBase(Client client, std::string_view name, LockOptions options,
                             std::string_view key_kind)
    : body_(std::make_unique<Body>(std::move(client.core_), name, std::move(options), key_kind)) {}

RedisLockBase::~RedisLockBase() {
  const base::NoCancellation no_cancellation;
  body_.reset();
}

const std::string& RedisLockBase::name() const { return body_->name(); }

void RedisLockBase::lock() {
  if (engine::Handle* const held = body_->attached();
      held != nullptr && held->Reenter(engine::Face::kStd)) {
    return;
  }
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) Throw(access.status());
  if (const absl::Status refused = body_->RefuseUpgrade(**access); !refused.ok()) {
    ThrowDeadlock(refused);
  }
  engine::Handle& handle = *(*access)->handle;
  const auto won = handle.Acquire(body_->WantOf(**access, engine::Face::kStd, {}));
  if (won.ok()) return;
  if (absl::IsFailedPrecondition(won.status()) && handle.OfThisThread().depth > 0) {
    ThrowDeadlock(won.status());
  }
  Throw(won.status());
}

bool RedisLockBase::try_lock() { return TryLockFor(absl::ZeroDuration()); }

bool RedisLockBase::TryLockFor(absl::Duration wait) {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) Throw(access.status());
  if (!body_->RefuseUpgrade(**access).ok()) return false;
  engine::Handle& handle = *(*access)->handle;
  const auto won = handle.Acquire(body_->WantOf(**access, engine::Face::kStd, {.wait = wait}));
  if (won.ok()) return true;
  if (IsBusy(won.status())) return false;
  if (absl::IsFailedPrecondition(won.status()) && handle.OfThisThread().depth > 0) return false;
  Throw(won.status());
}

void RedisLockBase::unlock() noexcept {
  if (engine::Handle* const handle = body_->attached()) return handle->Unlock();
  const base::NoCancellation no_cancellation;
  if (const auto access = body_->Attach(*this); access.ok()) return (*access)->handle->Unlock();
  if (body_->core()->in_forked_child()) return;
  body_->core()->Tell([this](Observer& observer) {
    observer.OnMisuse(name(), "unlock() by a thread that does not hold it; nothing was released");
  });
}

absl::StatusOr<Lease> RedisLockBase::Acquire(const AcquireOptions& options) {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) return access.status();
  auto handle = body_->HandleFor(*this, **access, options.owner);
  if (!handle.ok()) return handle.status();
  if (absl::Status refused = body_->RefuseUpgrade(**access); !refused.ok()) return refused;
  auto won = (*handle)->Acquire(body_->WantOf(**access, engine::Face::kStatus, options));
  if (!won.ok()) return won.status();
  return Lease(*std::move(handle), won->tenure, std::move(won->view), won->token);
}

absl::StatusOr<Lease> RedisLockBase::TryAcquire() {
  return Acquire({.wait = absl::ZeroDuration()});
}

Hold RedisLockBase::current() const {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) return {};
  engine::Won current = (*access)->handle->Current();
  return Hold(std::move(current.view), current.token);
}

int RedisLockBase::hold_count() const {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  return access.ok() ? static_cast<int>((*access)->handle->OfThisThread().depth) : 0;
}

absl::StatusOr<engine::Readers::Entered> RedisLockBase::Body::Read(const RedisLockBase& lock,
                                                                   engine::Face face,
                                                                   const AcquireOptions& options) {
  const auto attached = Attach(lock);
  if (!attached.ok()) return attached.status();
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const std::shared_ptr<Access>& access = *attached;
  if (access->readers == nullptr) {
    return absl::FailedPreconditionError("lock \"" + name_ + "\" has no shared side");
  }
  engine::Want want = WantOf(*access, face, options);
  if (const auto writes = access->handle->Pin(); writes.depth > 0) {
    want.write_token = writes.token;
    want.write_hold = writes.hold;
  }
  auto entered = access->readers->Acquire(std::move(want));
  if (entered.ok() && face == engine::Face::kStatus) {
    // Whoever has the lease may come again by another object, to the same readers.
    struct Kept {
      std::shared_ptr<engine::Readers> readers;
      std::shared_ptr<engine::Handle> group;
    };
    auto kept = std::make_shared<Kept>(Kept{access->readers, std::move(entered->group)});
    engine::Handle* const group = kept->group.get();
    entered->group = std::shared_ptr<engine::Handle>(std::move(kept), group);
  }
  return entered;
}

void RedisLockBase::LockShared() {
  const base::NoCancellation no_cancellation;
  const auto entered = body_->Read(*this, engine::Face::kStd, {});
  if (!entered.ok()) Throw(entered.status());
}

bool RedisLockBase::TryLockSharedFor(absl::Duration wait) {
  const base::NoCancellation no_cancellation;
  const auto entered = body_->Read(*this, engine::Face::kStd, {.wait = wait});
  if (!entered.ok() && !IsBusy(entered.status())) Throw(entered.status());
  return entered.ok();
}

void RedisLockBase::UnlockShared() noexcept {
  const base::NoCancellation no_cancellation;
  if (engine::Readers* const readers = body_->ReadersOf(*this)) {
    if (const auto group = readers->OfThisThread()) return group->Unlock();
  }
  if (body_->core()->in_forked_child()) return;
  constexpr std::string_view kWhat =
      "unlock_shared() by a thread that does not hold it; nothing was released";
  if (engine::Handle* const handle = body_->attached()) return handle->Misuse(kWhat);
  body_->core()->Tell([&](Observer& observer) { observer.OnMisuse(name(), kWhat); });
}

absl::StatusOr<Lease> RedisLockBase::AcquireShared(const AcquireOptions& options) {
  const base::NoCancellation no_cancellation;
  if (!options.owner.is_calling_thread()) {
    return absl::InvalidArgumentError("lock \"" + name() +
                                      "\": an Owner is for writers; leave it out");
  }
  auto entered = body_->Read(*this, engine::Face::kStatus, options);
  if (!entered.ok()) return entered.status();
  engine::Won& won = entered->won;
  return Lease(std::move(entered->group), won.tenure, std::move(won.view), won.token);
}

Hold RedisLockBase::CurrentShared() const {
  const base::NoCancellation no_cancellation;
  const engine::Readers* const readers = body_->ReadersOf(*this);
  const auto group = readers == nullptr ? nullptr : readers->OfThisThread();
  if (group == nullptr) return {};
  engine::Won current = group->Current();
  return Hold(std::move(current.view), current.token);
}

int RedisLockBase::SharedHoldCount() const {
  const base::NoCancellation no_cancellation;
  const engine::Readers* const readers = body_->ReadersOf(*this);
  const auto group = readers == nullptr ? nullptr : readers->OfThisThread();
  return group == nullptr ? 0 : static_cast<int>(group->OfThisThread().depth);
}

absl::StatusOr<LockInfo> RedisLockBase::Inspect() const {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) return access.status();
  return (*access)->handle->Inspect();
}

absl::Status RedisLockBase::ForceRelease() {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) return access.status();
  return (*access)->handle->ForceRelease();
}

}  // namespace redlatch
