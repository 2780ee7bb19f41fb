#include "redlatch/redis_lock_base.h"

#include <atomic>
#include <system_error>
#include <utility>

#include "redlatch/status.h"
#include "src/base/mutex.h"
#include "src/engine/handle.h"
#include "src/engine/plan.h"

namespace redlatch {
namespace {

[[noreturn]] void Throw(const absl::Status& status) {
  throw std::system_error(MakeErrorCode(status.code()), std::string(status.message()));
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
    if (!core_->in_forked_child() && handle_ != nullptr) handle_->StopAll(this);
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
      handle_ = *std::move(made);
      attached_.store(true, std::memory_order_release);
    }
    return handle_;
  }

  absl::StatusOr<std::shared_ptr<engine::Handle>> AttachFor(const RedisLockBase& lock,
                                                            const Owner& owner) {
    if (owner.is_calling_thread()) return Attach(lock);
    if (!lock.Traits().reentrant) {
      return absl::InvalidArgumentError("lock \"" + name_ +
                                        "\": an Owner is for reentrant locks; leave it out");
    }
    return engine::Handle::Attach(core_, name_, owner.name(), PlanOf(lock));
  }

  engine::Want WantOf(engine::Face face, absl::Duration wait) const {
    return {.face = face,
            .terms = {.lease = options_->lease},
            .wait = wait,
            .options = options_,
            .object = this};
  }

 private:
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
  std::shared_ptr<engine::Handle> handle_;  // does not change once `attached_`
};

RedisLockBase::RedisLockBase(Client client, std::string_view name, LockOptions options)
    : body_(std::make_unique<Body>(std::move(client.core_), name, std::move(options))) {}

RedisLockBase::~RedisLockBase() = default;

const std::string& RedisLockBase::name() const { return body_->name(); }

void RedisLockBase::lock() {
  if (engine::Handle* const held = body_->attached(); held != nullptr && held->Reenter()) return;
  const auto handle = body_->Attach(*this);
  if (!handle.ok()) Throw(handle.status());
  const auto won = (*handle)->Acquire(body_->WantOf(engine::Face::kStd, absl::InfiniteDuration()));
  if (won.ok()) return;
  if (absl::IsFailedPrecondition(won.status()) && (*handle)->OfThisThread().depth > 0) {
    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                            std::string(won.status().message()));
  }
  Throw(won.status());
}

bool RedisLockBase::try_lock() { return TryLockFor(absl::ZeroDuration()); }

bool RedisLockBase::TryLockFor(absl::Duration wait) {
  const auto handle = body_->Attach(*this);
  if (!handle.ok()) Throw(handle.status());
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
  engine::Want want = body_->WantOf(engine::Face::kStatus, options.wait);
  want.stop = options.stop;
  if (options.lease) want.terms = {.lease = *options.lease, .manual = true};
  const auto won = (*handle)->Acquire(want);
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
