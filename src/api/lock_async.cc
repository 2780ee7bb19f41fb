// The asynchronous face of a lock.
#include <memory>
#include <utility>

#include "redlatch/redis_lock_base.h"
#include "src/api/lock_body.h"
#include "src/lock/event_driver.h"
#include "src/lock/lock_handle.h"
#include "src/lock/reader_groups.h"
#include "src/lock/users_code.h"

namespace redlatch {
namespace {

// A group of readers, and those who know of it.
absl::StatusOr<std::shared_ptr<internal::LockHandle>> NextGroup(
    std::shared_ptr<internal::ReaderGroups> readers, const internal::Entry* left) {
  auto group = readers->NextGroup(left);
  if (!group.ok()) return group;
  struct Kept {
    std::shared_ptr<internal::ReaderGroups> readers;
    std::shared_ptr<internal::LockHandle> group;
  };
  auto kept = std::make_shared<Kept>(Kept{std::move(readers), *std::move(group)});
  internal::LockHandle* const handle = kept->group.get();
  return std::shared_ptr<internal::LockHandle>(std::move(kept), handle);
}

}  // namespace

absl::StatusOr<RedisLockBase::LockBody::Way> RedisLockBase::LockBody::WayTo(
    const absl::StatusOr<Side>& side, const AcquireOptions& options) const {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (!side.ok()) return side.status();
  Way way{.handle = side->handle,
          .want = WantOf(*side->access, internal::Face::kStatus, side->caller, options)};
  if (!side->reads) return way;
  const std::shared_ptr<internal::ReaderGroups>& readers = side->access->readers;
  if (readers == nullptr) {
    return absl::FailedPreconditionError("lock \"" + name_ + "\" has no shared side");
  }
  auto group = NextGroup(readers, nullptr);
  if (!group.ok()) return group.status();
  way.handle = *std::move(group);
  way.elsewhere =
      [known = std::weak_ptr<internal::ReaderGroups>(readers)](
          const internal::Entry& left) -> absl::StatusOr<std::shared_ptr<internal::LockHandle>> {
    std::shared_ptr<internal::ReaderGroups> those = known.lock();
    if (those == nullptr) return absl::CancelledError("its lock is gone");
    return NextGroup(std::move(those), &left);
  };
  return way;
}

void RedisLockBase::LockBody::AcquireAsync(const absl::StatusOr<Side>& side,
                                           const AcquireOptions& options,
                                           internal::EventDriver::Whose whose,
                                           AcquireCallback callback) {
  // A lease from here on: what is not taken goes back.
  internal::LockHandle::Finish finish = [told = internal::NotNull(std::move(callback))](
                                            absl::StatusOr<internal::OwnedHold> held) mutable {
    auto lease = LeaseOf(std::move(held));
    return [told = std::move(told), lease = std::move(lease)]() mutable {
      std::move(told)(std::move(lease));
    };
  };
  absl::StatusOr<Way> way = WayTo(side, options);
  if (!way.ok()) return core_->async().Complete(std::move(finish)(way.status()), whose);
  way->handle->AcquireAsync(std::move(way->want), std::move(finish), std::move(way->elsewhere),
                            whose);
}

void RedisLockBase::AcquireAsyncBy(const Caller& caller, const AcquireOptions& options,
                                   AcquireCallback callback) {
  body_->AcquireAsync(body_->SideOf(*this, /*reads=*/false, caller), options,
                      internal::EventDriver::Whose::kUsers, std::move(callback));
}

void RedisLockBase::AcquireSharedAsync(const AcquireOptions& options, AcquireCallback callback) {
  body_->AcquireAsync(body_->SideOf(*this, /*reads=*/true, {}), options,
                      internal::EventDriver::Whose::kUsers, std::move(callback));
}

}  // namespace redlatch
