#include "redlatch/redis_lock_base.h"

#include <optional>
#include <utility>

#include "redlatch/status.h"
#include "src/api/lock_body.h"
#include "src/api/throw.h"
#include "src/lock/lock_handle.h"
#include "src/lock/reader_groups.h"

namespace redlatch {

RedisLockBase::RedisLockBase(Client client, std::string_view name, LockOptions options)
    : RedisLockBase(std::move(client), name, std::move(options), {}) {}

RedisLockBase::RedisLockBase(Client client, std::string_view name, LockOptions options,
                             std::string_view key_kind)
    : body_(std::make_shared<LockBody>(std::move(client.core_), name, std::move(options),
                                       key_kind)) {}

RedisLockBase::RedisLockBase(std::shared_ptr<LockBody> body) : body_(std::move(body)) {}

const std::shared_ptr<internal::ClientCore>& RedisLockBase::CoreOf(const Client& client) {
  return client.core_;
}

RedisLockBase::~RedisLockBase() {
  body_->Close();
  body_.reset();
}

const std::string& RedisLockBase::name() const { return body_->name(); }

void RedisLockBase::lock() {
  if (internal::LockHandle* const held = body_->attached();
      held != nullptr && held->LockAgain(body_->options())) {
    return;
  }
  const auto access = body_->Attach(*this);
  if (!access.ok()) Throw(access.status());
  if (const absl::Status refused = body_->RefuseUpgrade(**access); !refused.ok()) {
    ThrowDeadlock(refused);
  }
  internal::LockHandle& handle = *(*access)->handle;
  const auto held = handle.Acquire(body_->WriteWantOf(**access, internal::Face::kStd, {}, {}));
  if (held.ok()) return;
  if (absl::IsFailedPrecondition(held.status()) && handle.OfThisThread().depth > 0) {
    ThrowDeadlock(held.status());
  }
  Throw(held.status());
}

bool RedisLockBase::try_lock() { return TryLockFor(absl::ZeroDuration()).value_or(false); }

std::optional<bool> RedisLockBase::TryLockFor(absl::Duration wait) {
  if (internal::LockHandle* const held = body_->attached();
      held != nullptr && held->LockAgain(body_->options())) {
    return true;
  }
  const auto access = body_->Attach(*this);
  if (!access.ok()) Throw(access.status());
  if (!body_->RefuseUpgrade(**access).ok()) return std::nullopt;
  internal::LockHandle& handle = *(*access)->handle;
  const auto held =
      handle.Acquire(body_->WriteWantOf(**access, internal::Face::kStd, {}, {.wait = wait}));
  if (held.ok()) return true;
  if (IsBusy(held.status())) return false;
  if (absl::IsFailedPrecondition(held.status()) && handle.OfThisThread().depth > 0) return {};
  Throw(held.status());
}

void RedisLockBase::unlock() noexcept {
  if (internal::LockHandle* const handle = body_->attached()) return handle->Unlock();
  if (const auto access = body_->Attach(*this); access.ok()) return (*access)->handle->Unlock();
  if (body_->core()->in_forked_child()) return;
  body_->core()->Tell([this](Observer& observer) {
    observer.OnMisuse(name(), "unlock() by a thread that does not hold it; nothing was released");
  });
}

absl::StatusOr<Lease> RedisLockBase::AcquireBy(const Caller& caller,
                                               const AcquireOptions& options) {
  const auto side = body_->SideOf(*this, /*reads=*/false, caller);
  if (!side.ok()) return side.status();
  return LockBody::LeaseOf(side->Acquire(internal::Face::kStatus, options));
}

absl::StatusOr<Lease> RedisLockBase::TryAcquire() {
  return Acquire({.wait = absl::ZeroDuration()});
}

Hold RedisLockBase::current() const {
  const auto access = body_->Attach(*this);
  if (!access.ok()) return {};
  internal::HoldRef current = (*access)->handle->Current();
  return Hold(std::move(current.view), current.token);
}

int RedisLockBase::hold_count() const {
  const auto access = body_->Attach(*this);
  return access.ok() ? static_cast<int>((*access)->handle->OfThisThread().depth) : 0;
}

void RedisLockBase::LockShared() {
  if (body_->ReadAgain()) return;
  const auto side = body_->SideOf(*this, /*reads=*/true, {});
  if (!side.ok()) Throw(side.status());
  const auto entered = side->Acquire(internal::Face::kStd, {});
  if (!entered.ok()) Throw(entered.status());
}

bool RedisLockBase::TryLockSharedFor(absl::Duration wait) {
  if (body_->ReadAgain()) return true;
  const auto side = body_->SideOf(*this, /*reads=*/true, {});
  if (!side.ok()) Throw(side.status());
  const auto entered = side->Acquire(internal::Face::kStd, {.wait = wait});
  if (!entered.ok() && !IsBusy(entered.status())) Throw(entered.status());
  return entered.ok();
}

void RedisLockBase::UnlockShared() noexcept {
  if (internal::ReaderGroups* const readers = body_->keeping_readers();
      readers != nullptr && readers->LeaveCachedNow()) {
    return;
  }
  if (internal::ReaderGroups* const readers = body_->ReadersOf(*this)) {
    if (const auto group = readers->OfThisThread()) return group->Unlock();
  }
  if (body_->core()->in_forked_child()) return;
  constexpr std::string_view kWhat =
      "unlock_shared() by a thread that does not hold it; nothing was released";
  if (internal::LockHandle* const handle = body_->attached()) return handle->Misuse(kWhat);
  body_->core()->Tell([&](Observer& observer) { observer.OnMisuse(name(), kWhat); });
}

absl::StatusOr<Lease> RedisLockBase::AcquireShared(const AcquireOptions& options) {
  const auto side = body_->SideOf(*this, /*reads=*/true, {});
  if (!side.ok()) return side.status();
  return LockBody::LeaseOf(side->Acquire(internal::Face::kStatus, options));
}

Hold RedisLockBase::CurrentShared() const {
  const internal::ReaderGroups* const readers = body_->ReadersOf(*this);
  const auto group = readers == nullptr ? nullptr : readers->OfThisThread();
  if (group == nullptr) return {};
  internal::HoldRef current = group->Current();
  return Hold(std::move(current.view), current.token);
}

int RedisLockBase::SharedHoldCount() const {
  const internal::ReaderGroups* const readers = body_->ReadersOf(*this);
  const auto group = readers == nullptr ? nullptr : readers->OfThisThread();
  return group == nullptr ? 0 : static_cast<int>(group->OfThisThread().depth);
}

absl::StatusOr<LockInfo> RedisLockBase::Inspect() const {
  const auto access = body_->Attach(*this);
  if (!access.ok()) return access.status();
  return (*access)->handle->Inspect();
}

absl::Status RedisLockBase::ForceRelease() {
  const auto access = body_->Attach(*this);
  if (!access.ok()) return access.status();
  return (*access)->handle->ForceRelease();
}

}  // namespace redlatch
