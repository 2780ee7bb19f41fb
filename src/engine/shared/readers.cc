#include "src/engine/shared/readers.h"

#include <algorithm>
#include <utility>

namespace redlatch::engine {

Readers::~Readers() {
  if (!core_->in_forked_child()) core_->readers().Forget(name_);
}

absl::StatusOr<std::shared_ptr<Handle>> Readers::Found(HoldNumber write_hold) {
  // Nobody but this list knows of them, and nobody reads there.
  std::erase_if(groups_,
                [](const auto& group) { return group.use_count() == 1 && !group->in_use(); });
  auto group = Handle::Attach(core_, name_, core_->ReaderName(write_hold), plan_);
  if (group.ok()) groups_.push_back(*group);
  return group;
}

absl::StatusOr<Readers::Entered> Readers::Acquire(Want want) {
  want.since = base::Now();
  const bool writes = want.write_hold != 0;
  std::shared_ptr<Handle> group;
  {
    const base::MutexLock lock(mu_);
    for (const auto& each : groups_) {
      if (const auto won = each->Reenter(want.face)) return Entered{.group = each, .won = *won};
    }
    if (writes) {
      auto own = Found(want.write_hold);
      if (!own.ok()) return own.status();
      group = *std::move(own);
    }
  }
  while (true) {
    if (!writes) {
      const base::MutexLock lock(mu_);
      if (latest_ == nullptr || latest_ == group) {
        auto next = Found(0);
        if (!next.ok()) return next.status();
        latest_ = *std::move(next);
      }
      group = latest_;
    }
    const absl::StatusOr<Won> won = group->Acquire(want);
    if (!won.ok()) return won.status();
    if (won->tenure != 0) return Entered{.group = std::move(group), .won = *won};
    want.silence = won->silence;
  }
}

std::shared_ptr<Handle> Readers::OfThisThread() const {
  const base::MutexLock lock(mu_);
  std::shared_ptr<Handle> lost;
  for (const auto& each : groups_) {
    const auto standing = each->OfThisThread();
    if (standing.depth > 0) return each;
    if (standing.tenure != 0) lost = each;
  }
  return lost;
}

bool Readers::ThisThreadReads() const {
  const std::shared_ptr<Handle> group = OfThisThread();
  return group != nullptr && group->OfThisThread().depth > 0;
}

void Readers::Enter() {
  const base::MutexLock lock(mu_);
  ++objects_;
}

void Readers::Leave() {
  std::vector<std::shared_ptr<Handle>> groups;
  {
    const base::MutexLock lock(mu_);
    if (--objects_ > 0) return;
    latest_.reset();
    groups = groups_;
    // Whoever has a lease there may come again by another object.
    std::erase_if(groups_, [](const auto& group) { return group.use_count() == 2; });
  }
  for (const auto& each : groups) each->EndStd();
}

}  // namespace redlatch::engine
