#include "src/api/multi_lock_apart.h"

#include <algorithm>
#include <cstddef>
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

Hold MultiLock::Apart::CurrentOf(const Part& part) const {
  return part.reads_ ? part.lock_->CurrentShared() : part.lock_->current();
}

absl::Status MultiLock::Apart::LockPart(const Part& part, absl::Duration wait,
                                        const std::stop_token& stop) {
  RedisLockBase& lock = *part.lock_;
  const AcquireOptions options = {.wait = wait, .stop = stop};
  if (part.reads_) return lock.body_->Read(lock, engine::Face::kStd, options).status();
  const auto access = lock.body_->Attach(lock);
  if (!access.ok()) return access.status();
  if (absl::Status refused = lock.body_->RefuseUpgrade(**access); !refused.ok()) return refused;
  return (*access)
      ->session->Acquire(lock.body_->WantOf(**access, engine::Face::kStd, options))
      .status();
}

absl::Status MultiLock::Apart::Lock(absl::Duration wait) {
  const Ways ways = {
      .take = [this](size_t i, absl::Duration its_wait,
                     const std::stop_token& stop) { return LockPart(parts_[i], its_wait, stop); },
      .give_back =
          [this](size_t i) {
            parts_[i].reads_ ? parts_[i].lock_->UnlockShared() : parts_[i].lock_->unlock();
          },
      .holds = [this](size_t i) { return CurrentOf(parts_[i]).valid(); },
  };
  return TakeAll(ways, wait, {});
}

bool MultiLock::Apart::Deadlocks(const absl::Status& failure) const {
  if (!absl::IsFailedPrecondition(failure)) return false;
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.lock_->hold_count() > 0 || part.lock_->SharedHoldCount() > 0;
  });
}

void MultiLock::Apart::Unlock() noexcept {
  for (size_t i = parts_.size(); i-- > 0;) {
    parts_[i].reads_ ? parts_[i].lock_->UnlockShared() : parts_[i].lock_->unlock();
  }
}

absl::StatusOr<Lease> MultiLock::Apart::Acquire(const AcquireOptions& options) {
  std::vector<Lease> leases(parts_.size());
  const Ways ways = {
      .take = [&](size_t i, absl::Duration wait, const std::stop_token& stop) -> absl::Status {
        AcquireOptions its = options;
        its.wait = wait;
        its.stop = stop;
        auto lease =
            parts_[i].reads_ ? parts_[i].lock_->AcquireShared(its) : parts_[i].lock_->Acquire(its);
        if (!lease.ok()) return lease.status();
        leases[i] = *std::move(lease);
        return absl::OkStatus();
      },
      .give_back = [&](size_t i) { leases[i] = Lease(); },
      .holds = [&](size_t i) { return leases[i].valid(); },
  };
  if (absl::Status taken = TakeAll(ways, options.wait, options.stop); !taken.ok()) return taken;
  return LeaseOf(std::move(leases));
}

Lease MultiLock::Apart::LeaseOf(std::vector<Lease> leases) const {
  Hold joined = Joined({leases.begin(), leases.end()});
  auto holder =
      std::make_shared<JointHolder>(parts_.front().lock_->body_->core(), std::move(leases));
  return Lease(std::move(holder), 1, std::move(joined.view_), FencingToken());
}

Hold MultiLock::Apart::Joined(const std::vector<Hold>& holds) const {
  std::vector<engine::JointView::Part> views;
  for (size_t i = 0; i < holds.size(); ++i) {
    if (holds[i].view_ == nullptr) return {};
    views.push_back({.name = parts_[i].lock_->name(),
                     .token = holds[i].fencing_token(),
                     .view = holds[i].view_});
  }
  return Hold(std::make_shared<engine::JointView>(std::move(views), base::Now()), FencingToken());
}

Hold MultiLock::Apart::Current() const {
  std::vector<Hold> holds;
  for (const Part& part : parts_) holds.push_back(CurrentOf(part));
  return Joined(holds);
}

int MultiLock::Apart::HoldCount() const {
  std::vector<int> counts;
  for (const Part& part : parts_) {
    counts.push_back(part.reads_ ? part.lock_->SharedHoldCount() : part.lock_->hold_count());
  }
  return *std::min_element(counts.begin(), counts.end());
}

absl::StatusOr<LockInfo> MultiLock::Apart::Inspect() const {
  LockInfo all;
  for (const Part& part : parts_) {
    absl::StatusOr<LockInfo> info = part.lock_->Inspect();
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
  absl::Status result;
  for (const Part& part : parts_) result.Update(part.lock_->ForceRelease());
  return result;
}

}  // namespace redlatch
