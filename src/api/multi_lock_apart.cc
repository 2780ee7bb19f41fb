#include "src/api/multi_lock_apart.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "src/api/joint_holder.h"
#include "src/api/lock_body.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/engine/machine/joint_view.h"

namespace redlatch {
namespace {

// Between two rounds: whoever has what was refused is waited for, not polled.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

}  // namespace

MultiLock::Apart::Apart(std::vector<Part> parts, std::vector<std::unique_ptr<RedisLockBase>> own,
                        absl::Status bad)
    : parts_(std::move(parts)),
      own_(std::move(own)),
      bad_(std::move(bad)),
      of_one_client_(std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
        return part.lock_->body_->core() == parts_.front().lock_->body_->core();
      })) {}

// From `first` on, and round: that one alone is waited for, or all are where their order says so.
size_t MultiLock::Apart::TakeFrom(const Ways& ways, size_t first, absl::Duration wait,
                                  const std::stop_token& stop, absl::Status& status) const {
  const base::Instant end = base::Now() + wait;
  size_t taken = 0;
  const auto at = [&](size_t i) { return (first + i) % parts_.size(); };
  absl::Cleanup rollback = [&] {
    while (taken > 0) ways.give_back(at(--taken));
  };
  for (; taken < parts_.size(); ++taken) {
    const bool waits = taken == 0 || of_one_client_;
    status = ways.take(at(taken), waits ? base::Until(end) : absl::ZeroDuration(), stop);
    if (!status.ok()) return at(taken);
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (ways.holds(at(i))) continue;
    status = absl::AbortedError("one of the locks was lost while another was waited for");
    return at(i);
  }
  std::move(rollback).Cancel();
  return first;
}

absl::Status MultiLock::Apart::TakeAll(const Ways& ways, absl::Duration wait,
                                       const std::stop_token& stop) const {
  std::stop_source stopped;
  const auto end_it = [&] { stopped.request_stop(); };
  const std::stop_callback by_caller(stop, end_it);
  const std::stop_callback with_object(gone_.get_token(), end_it);
  const base::Instant end = base::Now() + wait;
  base::Backoff backoff(kFirstPause, kLongestPause);
  size_t first = 0;
  for (;;) {
    absl::Status status;
    const size_t refused = TakeFrom(ways, first, base::Until(end), stopped.get_token(), status);
    if (status.ok()) return status;
    const bool again =
        absl::IsAborted(status) || (absl::IsDeadlineExceeded(status) && !of_one_client_);
    const base::Instant next = base::Now() + backoff.Next();
    if (!again || end <= next) return status;
    if (stopped.stop_requested()) return absl::CancelledError("the wait was stopped");
    if (!of_one_client_) first = refused;
    base::Parker().ParkUntil(next);
  }
}

auto MultiLock::Apart::SidesFor(const Owner& owner) const -> absl::StatusOr<Sides> {
  Sides sides;
  for (const Part& part : parts_) {
    auto side = part.lock_->body_->SideOf(*part.lock_, part.reads_, owner);
    if (!side.ok()) return side.status();
    sides.push_back(*std::move(side));
  }
  return sides;
}

absl::Status MultiLock::Apart::Lock(absl::Duration wait, bool& deadlock) {
  const absl::StatusOr<Sides> sides = SidesFor({});
  if (!sides.ok()) return sides.status();
  const Ways ways = {
      .take = [&](size_t i, absl::Duration its_wait, const std::stop_token& stop) -> absl::Status {
        return (*sides)[i].Acquire(engine::Face::kStd, {.wait = its_wait, .stop = stop}).status();
      },
      .give_back = [&](size_t i) { (*sides)[i].Unlock(); },
      .holds =
          [&](size_t i) {
            const auto view = (*sides)[i].Current().view;
            return view != nullptr && view->Valid(base::Now());
          },
  };
  absl::Status taken = TakeAll(ways, wait, {});
  deadlock = absl::IsFailedPrecondition(taken) &&
             std::any_of(sides->begin(), sides->end(), [](LockBody::Side side) {
               if (side.OfThisThread().depth > 0) return true;
               side.reads = !side.reads;
               return side.OfThisThread().depth > 0;
             });
  return taken;
}

void MultiLock::Apart::Unlock() noexcept {
  for (size_t i = parts_.size(); i-- > 0;) {
    parts_[i].reads_ ? parts_[i].lock_->UnlockShared() : parts_[i].lock_->unlock();
  }
}

absl::StatusOr<Lease> MultiLock::Apart::Acquire(const AcquireOptions& options) {
  const absl::StatusOr<Sides> sides = SidesFor(options.owner);
  if (!sides.ok()) return sides.status();
  std::vector<Lease> leases(sides->size());
  const Ways ways = {
      .take = [&](size_t i, absl::Duration wait, const std::stop_token& stop) -> absl::Status {
        AcquireOptions its = options;
        its.wait = wait;
        its.stop = stop;
        auto lease = LockBody::LeaseOf((*sides)[i].Acquire(engine::Face::kStatus, its));
        if (!lease.ok()) return lease.status();
        leases[i] = *std::move(lease);
        return absl::OkStatus();
      },
      .give_back = [&](size_t i) { leases[i] = Lease(); },
      .holds = [&](size_t i) { return leases[i].valid(); },
  };
  if (absl::Status taken = TakeAll(ways, options.wait, options.stop); !taken.ok()) return taken;
  return LeaseOf(*sides, std::move(leases));
}

Lease MultiLock::Apart::LeaseOf(const Sides& sides, std::vector<Lease> leases) {
  Hold joined = Joined(sides, {leases.begin(), leases.end()});
  auto holder = std::make_shared<JointHolder>(sides.front().body->core(), std::move(leases));
  return Lease(std::move(holder), 1, std::move(joined.view_), FencingToken());
}

Hold MultiLock::Apart::Joined(const Sides& sides, const std::vector<Hold>& holds) {
  std::vector<engine::JointView::Part> views;
  for (size_t i = 0; i < holds.size(); ++i) {
    if (holds[i].view_ == nullptr) return {};
    views.push_back(
        {.name = sides[i].body->name(), .token = holds[i].fencing_token(), .view = holds[i].view_});
  }
  return Hold(std::make_shared<engine::JointView>(std::move(views)), FencingToken());
}

Hold MultiLock::Apart::Current() const {
  const absl::StatusOr<Sides> sides = SidesFor({});
  if (!sides.ok()) return {};
  std::vector<Hold> holds;
  for (const LockBody::Side& side : *sides) {
    engine::Held its = side.Current();
    holds.push_back(Hold(std::move(its.view), its.token));
  }
  return Joined(*sides, holds);
}

int MultiLock::Apart::HoldCount() const {
  const absl::StatusOr<Sides> sides = SidesFor({});
  if (!sides.ok()) return 0;
  uint32_t fewest = std::numeric_limits<uint32_t>::max();
  for (const LockBody::Side& side : *sides) fewest = std::min(fewest, side.OfThisThread().depth);
  return static_cast<int>(fewest);
}

absl::StatusOr<LockInfo> MultiLock::Apart::Inspect() const {
  const absl::StatusOr<Sides> sides = SidesFor({});
  if (!sides.ok()) return sides.status();
  LockInfo all;
  for (const LockBody::Side& side : *sides) {
    absl::StatusOr<LockInfo> info = side.session->Inspect();
    if (!info.ok()) return info.status();
    std::move(info->holders.begin(), info->holders.end(), std::back_inserter(all.holders));
    std::move(info->waiters.begin(), info->waiters.end(), std::back_inserter(all.waiters));
    all.holding += info->holding;
    all.waiting += info->waiting;
  }
  all.kind = "multi";
  return all;
}

absl::Status MultiLock::Apart::ForceRelease() {
  const absl::StatusOr<Sides> sides = SidesFor({});
  if (!sides.ok()) return sides.status();
  absl::Status result;
  for (const LockBody::Side& side : *sides) result.Update(side.session->ForceRelease());
  return result;
}

}  // namespace redlatch
