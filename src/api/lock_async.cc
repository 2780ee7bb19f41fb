// The asynchronous face of a lock.
#include <memory>
#include <utility>

#include "redlatch/redis_lock_base.h"
#include "src/api/lock_body.h"
#include "src/engine/runtime/async_driver.h"
#include "src/engine/runtime/lock_session.h"
#include "src/engine/runtime/users_code.h"
#include "src/engine/shared/readers.h"

namespace redlatch {
namespace {

// A group of readers, and those who know of it.
absl::StatusOr<std::shared_ptr<engine::LockSession>> NextGroup(
    std::shared_ptr<engine::Readers> readers, const engine::Entry* left) {
  auto group = readers->NextGroup(left);
  if (!group.ok()) return group;
  struct Kept {
    std::shared_ptr<engine::Readers> readers;
    std::shared_ptr<engine::LockSession> group;
  };
  auto kept = std::make_shared<Kept>(Kept{std::move(readers), *std::move(group)});
  engine::LockSession* const session = kept->group.get();
  return std::shared_ptr<engine::LockSession>(std::move(kept), session);
}

}  // namespace

absl::StatusOr<RedisLockBase::LockBody::Way> RedisLockBase::LockBody::WayTo(
    const absl::StatusOr<Side>& side, const AcquireOptions& options) const {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (!side.ok()) return side.status();
  Way way{.session = side->session, .want = WantOf(*side->access, engine::Face::kStatus, options)};
  if (!side->reads) return way;
  const std::shared_ptr<engine::Readers>& readers = side->access->readers;
  if (readers == nullptr) {
    return absl::FailedPreconditionError("lock \"" + name_ + "\" has no shared side");
  }
  auto group = NextGroup(readers, nullptr);
  if (!group.ok()) return group.status();
  way.session = *std::move(group);
  way.elsewhere =
      [known = std::weak_ptr<engine::Readers>(readers)](
          const engine::Entry& left) -> absl::StatusOr<std::shared_ptr<engine::LockSession>> {
    std::shared_ptr<engine::Readers> those = known.lock();
    if (those == nullptr) return absl::CancelledError("its lock is gone");
    return NextGroup(std::move(those), &left);
  };
  return way;
}

void RedisLockBase::LockBody::AcquireAsync(const absl::StatusOr<Side>& side,
                                           const AcquireOptions& options,
                                           engine::AsyncDriver::Whose whose,
                                           AcquireCallback callback) {
  // A lease from here on: what is not taken goes back.
  engine::LockSession::Finish finish = [told = engine::NotNull(std::move(callback))](
                                           absl::StatusOr<engine::SessionHold> held) mutable {
    auto lease = LeaseOf(std::move(held));
    return [told = std::move(told), lease = std::move(lease)]() mutable {
      std::move(told)(std::move(lease));
    };
  };
  absl::StatusOr<Way> way = WayTo(side, options);
  if (!way.ok()) return core_->async().Complete(std::move(finish)(way.status()), whose);
  way->session->AcquireAsync(std::move(way->want), std::move(finish), std::move(way->elsewhere),
                             whose);
}

void RedisLockBase::AcquireAsync(const AcquireOptions& options, AcquireCallback callback) {
  body_->AcquireAsync(body_->SideOf(*this, /*reads=*/false, options.owner), options,
                      engine::AsyncDriver::Whose::kUsers, std::move(callback));
}

void RedisLockBase::AcquireSharedAsync(const AcquireOptions& options, AcquireCallback callback) {
  body_->AcquireAsync(body_->SideOf(*this, /*reads=*/true, options.owner), options,
                      engine::AsyncDriver::Whose::kUsers, std::move(callback));
}

}  // namespace redlatch
