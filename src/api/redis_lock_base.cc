#include "redlatch/redis_lock_base.h"

#include <atomic>
#include <system_error>
#include <utility>

#include "redlatch/status.h"
#include "src/api/throw.h"
#include "src/base/mutex.h"
#include "src/base/no_cancellation.h"
#include "src/engine/protocol/plan.h"
#include "src/engine/runtime/lock_session.h"
#include "src/engine/shared/readers.h"

namespace redlatch {
namespace {

[[noreturn]] void ThrowDeadlock(const absl::Status& status) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                          std::string(status.message()));
}

}  // namespace

// What a lock object is; a call that is under way keeps what it needs of it alive.
class RedisLockBase::LockBody {
 public:
  LockBody(std::shared_ptr<engine::Core> core, std::string_view name, LockOptions options,
           std::string_view key_kind)
      : core_(std::move(core)),
        name_(name),
        key_kind_(key_kind),
        options_(std::make_shared<const LockOptions>(std::move(options))) {}

  // What a call works with, also when the object goes meanwhile.
  struct Access {
    std::shared_ptr<engine::LockSession> session;
    std::shared_ptr<engine::Readers> readers;  // null: the lock has no shared side
    std::atomic<bool> gone{false};
  };

  ~LockBody() {
    if (access_ == nullptr || core_->in_forked_child()) return;
    access_->gone = true;
    access_->session->RemoveObject(this);
    if (access_->readers != nullptr) access_->readers->RemoveObject();
  }

  const std::string& name() const { return name_; }
  const std::shared_ptr<engine::Core>& core() const { return core_; }
  const std::shared_ptr<const LockOptions>& options() const { return options_; }

  // Null before the first use.
  engine::LockSession* attached() const {
    return attached_.load(std::memory_order_acquire) ? access_->session.get() : nullptr;
  }

  absl::StatusOr<std::shared_ptr<Access>> Attach(const RedisLockBase& lock) {
    if (attached_.load(std::memory_order_acquire)) return access_;
    if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
    const base::MutexLock guard(mu_);
    if (access_ == nullptr) {
      const absl::StatusOr<engine::Plan> plan = PlanOf(lock);
      if (!plan.ok()) return plan.status();
      auto made = engine::LockSession::Attach(core_, name_, {}, *plan);
      if (!made.ok()) return made.status();
      auto access = std::make_shared<Access>();
      if (const LockScripts scripts = lock.SharedScripts(); !scripts.acquire.body.empty()) {
        engine::Plan shared{.scripts = scripts,
                            .traits = plan->traits,
                            .sharing = engine::kReaders,
                            .keys = plan->keys};
        access->readers = core_->readers().Of(name_, [&] {
          return std::make_shared<engine::Readers>(core_, name_, std::move(shared));
        });
        access->readers->AddObject();
      }
      access->session = *std::move(made);
      access->session->AddObject();
      access_ = std::move(access);
      attached_.store(true, std::memory_order_release);
    }
    return access_;
  }

  // The session for holds of that owner.
  absl::StatusOr<std::shared_ptr<engine::LockSession>> SessionFor(const RedisLockBase& lock,
                                                                  const Access& access,
                                                                  const Owner& owner) const {
    if (owner.is_calling_thread()) return access.session;
    if (!lock.Traits().reentrant) {
      return absl::InvalidArgumentError("lock \"" + name_ +
                                        "\": an Owner is for reentrant locks; leave it out");
    }
    const absl::StatusOr<engine::Plan> plan = PlanOf(lock);
    if (!plan.ok()) return plan.status();
    return engine::LockSession::Attach(core_, name_, "user:" + std::string(owner.name()), *plan);
  }

  absl::StatusOr<engine::SessionHold> Read(const RedisLockBase& lock, engine::Face face,
                                           const AcquireOptions& options);

  // Null where there is no shared side, or none for this process.
  engine::Readers* ReadersOf(const RedisLockBase& lock) {
    const bool there = Attach(lock).ok() && !core_->in_forked_child();
    return there ? access_->readers.get() : nullptr;
  }

  // kFailedPrecondition where the calling thread reads and would wait for itself.
  absl::Status RefuseUpgrade(const Access& access) const {
    if (access.readers == nullptr || core_->in_forked_child() ||
        access.session->OfThisThread().depth > 0 || !access.readers->ThisThreadReads()) {
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
    : body_(std::make_unique<LockBody>(std::move(client.core_), name, std::move(options),
                                       key_kind)) {}

RedisLockBase::~RedisLockBase() {
  const base::NoCancellation no_cancellation;
  body_.reset();
}

const std::string& RedisLockBase::name() const { return body_->name(); }

void RedisLockBase::lock() {
  if (engine::LockSession* const held = body_->attached();
      held != nullptr && held->Reenter(engine::Face::kStd)) {
    return;
  }
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) Throw(access.status());
  if (const absl::Status refused = body_->RefuseUpgrade(**access); !refused.ok()) {
    ThrowDeadlock(refused);
  }
  engine::LockSession& session = *(*access)->session;
  const auto held = session.Acquire(body_->WantOf(**access, engine::Face::kStd, {}));
  if (held.ok()) return;
  if (absl::IsFailedPrecondition(held.status()) && session.OfThisThread().depth > 0) {
    ThrowDeadlock(held.status());
  }
  Throw(held.status());
}

bool RedisLockBase::try_lock() { return TryLockFor(absl::ZeroDuration()); }

bool RedisLockBase::TryLockFor(absl::Duration wait) {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) Throw(access.status());
  if (!body_->RefuseUpgrade(**access).ok()) return false;
  engine::LockSession& session = *(*access)->session;
  const auto held = session.Acquire(body_->WantOf(**access, engine::Face::kStd, {.wait = wait}));
  if (held.ok()) return true;
  if (IsBusy(held.status())) return false;
  if (absl::IsFailedPrecondition(held.status()) && session.OfThisThread().depth > 0) return false;
  Throw(held.status());
}

void RedisLockBase::unlock() noexcept {
  if (engine::LockSession* const session = body_->attached()) return session->Unlock();
  const base::NoCancellation no_cancellation;
  if (const auto access = body_->Attach(*this); access.ok()) return (*access)->session->Unlock();
  if (body_->core()->in_forked_child()) return;
  body_->core()->Tell([this](Observer& observer) {
    observer.OnMisuse(name(), "unlock() by a thread that does not hold it; nothing was released");
  });
}

absl::StatusOr<Lease> RedisLockBase::Acquire(const AcquireOptions& options) {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) return access.status();
  auto session = body_->SessionFor(*this, **access, options.owner);
  if (!session.ok()) return session.status();
  if (absl::Status refused = body_->RefuseUpgrade(**access); !refused.ok()) return refused;
  auto held = (*session)->Acquire(body_->WantOf(**access, engine::Face::kStatus, options));
  if (!held.ok()) return held.status();
  return Lease(*std::move(session), held->hold, std::move(held->view), held->token);
}

absl::StatusOr<Lease> RedisLockBase::TryAcquire() {
  return Acquire({.wait = absl::ZeroDuration()});
}

Hold RedisLockBase::current() const {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) return {};
  engine::Held current = (*access)->session->Current();
  return Hold(std::move(current.view), current.token);
}

int RedisLockBase::hold_count() const {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  return access.ok() ? static_cast<int>((*access)->session->OfThisThread().depth) : 0;
}

absl::StatusOr<engine::SessionHold> RedisLockBase::LockBody::Read(const RedisLockBase& lock,
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
  if (const auto writes = access->session->Pin(); writes.depth > 0) {
    want.write_token = writes.token;
    want.write_grant = writes.grant;
  }
  auto entered = access->readers->Acquire(std::move(want));
  if (entered.ok() && face == engine::Face::kStatus) {
    // Whoever has the lease may come again by another object, to the same readers.
    struct Kept {
      std::shared_ptr<engine::Readers> readers;
      std::shared_ptr<engine::LockSession> group;
    };
    auto kept = std::make_shared<Kept>(Kept{access->readers, std::move(entered->session)});
    engine::LockSession* const group = kept->group.get();
    entered->session = std::shared_ptr<engine::LockSession>(std::move(kept), group);
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
  if (engine::LockSession* const session = body_->attached()) return session->Misuse(kWhat);
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
  engine::Held& held = entered->held;
  return Lease(std::move(entered->session), held.hold, std::move(held.view), held.token);
}

Hold RedisLockBase::CurrentShared() const {
  const base::NoCancellation no_cancellation;
  const engine::Readers* const readers = body_->ReadersOf(*this);
  const auto group = readers == nullptr ? nullptr : readers->OfThisThread();
  if (group == nullptr) return {};
  engine::Held current = group->Current();
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
  return (*access)->session->Inspect();
}

absl::Status RedisLockBase::ForceRelease() {
  const base::NoCancellation no_cancellation;
  const auto access = body_->Attach(*this);
  if (!access.ok()) return access.status();
  return (*access)->session->ForceRelease();
}

}  // namespace redlatch
