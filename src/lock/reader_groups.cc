#include "src/lock/reader_groups.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace redlatch::internal {

absl::StatusOr<std::shared_ptr<LockHandle>> ReaderGroups::Found(GrantId write_grant) {
  // Removes groups that only this list refers to, and that no thread uses or caches.
  std::erase_if(groups_,
                [](const auto& group) { return group.use_count() == 1 && !group->in_use(); });
  auto group = LockHandle::Attach(core_, name_, core_->ReaderName(write_grant), type_);
  if (group.ok()) groups_.push_back(*group);
  return group;
}

absl::StatusOr<OwnedHold> ReaderGroups::Acquire(AcquireCall call) {
  call.since = base::Now();
  const bool writes = call.write_grant != 0;
  std::shared_ptr<LockHandle> group;
  {
    const base::MutexLock lock(mu_);
    for (const auto& each : groups_) {
      if (auto held = each->Reenter(call.face, call.terms.manual))
        return OwnedHold{each, *std::move(held)};
    }
    if (writes) {
      auto own = Found(call.write_grant);
      if (!own.ok()) return own.status();
      group = *std::move(own);
    }
  }
  while (true) {
    if (!writes) {
      auto next = NextGroup(group == nullptr ? nullptr : &group->entry());
      if (!next.ok()) return next.status();
      group = *std::move(next);
    }
    Silence met;
    absl::StatusOr<HoldRef> held = group->Acquire(call, &met);
    if (!held.ok()) return held.status();
    if (held->hold != 0) return OwnedHold{std::move(group), *std::move(held)};
    call.silence = std::move(met);
  }
}

bool ReaderGroups::LockAgain(const std::shared_ptr<const LockOptions>& options) {
  if (core_->in_forked_child()) return false;
  std::shared_ptr<LockHandle> group;
  {
    const base::MutexLock lock(mu_);
    for (const auto& each : groups_) {
      if (each != latest_ && each->OfThisThread().depth > 0) return false;
    }
    group = latest_;
  }
  return group != nullptr && group->LockAgain(options);
}

bool ReaderGroups::LeaveCachedNow() {
  if (core_->in_forked_child()) return false;
  const std::shared_ptr<LockHandle> group = latest();
  return group != nullptr && group->LeaveCachedNow();
}

absl::StatusOr<std::shared_ptr<LockHandle>> ReaderGroups::NextGroup(const Entry* left) {
  const base::MutexLock lock(mu_);
  if (latest_ == nullptr || &latest_->entry() == left) {
    auto next = Found(0);
    if (!next.ok()) return next.status();
    if (latest_ != nullptr) (*next)->CopyTriesFrom(*latest_);
    latest_ = *std::move(next);
  }
  return latest_;
}

std::shared_ptr<LockHandle> ReaderGroups::OfThisThread() const {
  const base::MutexLock lock(mu_);
  std::shared_ptr<LockHandle> lost;
  for (const auto& each : groups_) {
    const HoldRef held = each->OfThisThread();
    if (held.depth > 0) return each;
    if (held.hold != 0) lost = each;
  }
  return lost;
}

void ReaderGroups::GiveBack(AcquireCall& call) {
  const std::shared_ptr<LockHandle> group = latest();
  if (group == nullptr) return;
  call.since = base::Now();
  group->GiveBackCached();
}

void ReaderGroups::AddObject() {
  const base::MutexLock lock(mu_);
  ++objects_;
}

void ReaderGroups::RemoveObject() {
  absl::InlinedVector<std::shared_ptr<LockHandle>, 8> groups;  // usually without an allocation
  {
    const base::MutexLock lock(mu_);
    if (--objects_ > 0) return;
    latest_.reset();
    groups.assign(groups_.begin(), groups_.end());
    // A reader with a lease in the group may come again through another object.
    std::erase_if(groups_, [](const auto& group) { return group.use_count() == 2; });
  }
  for (const auto& each : groups) each->ReleaseStd();
}

}  // namespace redlatch::internal
