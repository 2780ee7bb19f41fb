#include "src/api/multi_lock_apart.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "src/api/joint_holder.h"
#include "src/api/lock_body.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/lock/async_run.h"
#include "src/lock/state/joint_hold_state.h"
#include "src/lock/users_code.h"

namespace redlatch {
namespace {

using internal::EventDriver;

// Between two rounds: whoever has what was refused is waited for, not polled.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

// Whether another round may succeed. Locks of several clients are tried without waiting, and the
// next round waits for the one that was refused.
bool MayPass(const absl::Status& why, bool of_one_client) {
  return absl::IsAborted(why) ||
         (!of_one_client && (absl::IsDeadlineExceeded(why) || absl::IsUnavailable(why)));
}

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
    const base::Instant next = base::Now() + backoff.Next();
    if (!MayPass(status, of_one_client_) || end <= next) return status;
    if (stopped.stop_requested()) return absl::CancelledError("the wait was stopped");
    if (!of_one_client_) first = refused;
    base::Parker().ParkUntil(next);
  }
}

auto MultiLock::Apart::SidesFor(const Caller& caller) const -> absl::StatusOr<Sides> {
  Sides sides;
  for (const Part& part : parts_) {
    auto side = part.lock_->body_->SideOf(*part.lock_, part.reads_, caller);
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
        return (*sides)[i].Acquire(internal::Face::kStd, {.wait = its_wait, .stop = stop}).status();
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

absl::StatusOr<Lease> MultiLock::Apart::Acquire(const Caller& caller,
                                                const AcquireOptions& options) {
  const absl::StatusOr<Sides> sides = SidesFor(caller);
  if (!sides.ok()) return sides.status();
  std::vector<Lease> leases(sides->size());
  const Ways ways = {
      .take = [&](size_t i, absl::Duration wait, const std::stop_token& stop) -> absl::Status {
        AcquireOptions its = options;
        its.wait = wait;
        its.stop = stop;
        auto lease = LockBody::LeaseOf((*sides)[i].Acquire(internal::Face::kStatus, its));
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
  auto holder = std::make_shared<JointHoldOwner>(sides.front().body->core(), std::move(leases));
  return Lease(std::move(holder), 1, std::move(joined.view_), FencingToken());
}

Hold MultiLock::Apart::Joined(const Sides& sides, const std::vector<Hold>& holds) {
  std::vector<internal::JointHoldState::Part> views;
  for (size_t i = 0; i < holds.size(); ++i) {
    if (holds[i].view_ == nullptr) return {};
    views.push_back(
        {.name = sides[i].body->name(), .token = holds[i].fencing_token(), .view = holds[i].view_});
  }
  return Hold(std::make_shared<internal::JointHoldState>(std::move(views)), FencingToken());
}

Hold MultiLock::Apart::Current() const {
  const absl::StatusOr<Sides> sides = SidesFor({});
  if (!sides.ok()) return {};
  std::vector<Hold> holds;
  for (const LockBody::Side& side : *sides) {
    internal::HoldRef its = side.Current();
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
    absl::StatusOr<LockInfo> info = side.handle->Inspect();
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
  for (const LockBody::Side& side : *sides) result.Update(side.handle->ForceRelease());
  return result;
}

// ---- Locks that no script can take together, taken without a thread: as
// MultiLock::Apart::TakeAll(), in steps.

// It keeps itself, by whatever it waits for. One step at a time, on the threads of its clients.
class MultiLock::Apart::Chain : public std::enable_shared_from_this<Chain> {
 public:
  Chain(const Apart& apart, Sides sides, AcquireOptions options, AcquireCallback told)
      : sides_(std::move(sides)),
        of_one_client_(apart.of_one_client_),
        options_(std::move(options)),
        told_(std::move(told)),
        end_(base::Now() + options_.wait),
        leases_(sides_.size()) {
    by_caller_.emplace(options_.stop, [this] { stopped_.request_stop(); });
    with_object_.emplace(apart.gone_.get_token(), [this] { stopped_.request_stop(); });
  }

  void TakeNext() {
    const bool waits = taken_ == 0 || of_one_client_;
    AcquireOptions its = options_;
    its.wait = waits ? base::Until(end_) : absl::ZeroDuration();
    its.stop = stopped_.get_token();
    const LockBody::Side& side = sides_[At(taken_)];
    side.body->AcquireAsync(side, its, EventDriver::Whose::kOwn,
                            [self = shared_from_this()](absl::StatusOr<Lease> lease) {
                              self->OnTaken(std::move(lease));
                            });
  }

 private:
  size_t At(size_t i) const { return (first_ + i) % leases_.size(); }
  // The first one's, which says where callbacks run.
  EventDriver& driver() const { return sides_.front().body->core()->async(); }
  static absl::Status Cancelled() { return absl::CancelledError("the wait was stopped"); }

  void OnTaken(absl::StatusOr<Lease> lease) {
    if (!lease.ok()) return OnRefused(At(taken_), lease.status());
    leases_[At(taken_++)] = *std::move(lease);
    if (taken_ < leases_.size()) return TakeNext();
    for (size_t i = 0; i < leases_.size(); ++i) {
      if (leases_[At(i)].valid()) continue;
      return OnRefused(
          At(i), absl::AbortedError("one of the locks was lost while another was waited for"));
    }
    Finish(LeaseOf(sides_, std::move(leases_)));
  }

  void OnRefused(size_t refused, const absl::Status& why) {
    while (taken_ > 0) leases_[At(--taken_)] = Lease();
    const base::Instant next = base::Now() + backoff_.Next();
    if (!MayPass(why, of_one_client_) || end_ <= next) return Finish(why);
    if (stopped_.stop_requested()) return Finish(Cancelled());
    if (!of_one_client_) first_ = refused;
    EventDriver& driver = this->driver();
    driver.Begin(std::make_unique<internal::AsyncTimer>(
        driver, next, [self = shared_from_this()] { self->TakeNext(); }));
  }

  void Finish(absl::StatusOr<Lease> lease) {
    by_caller_.reset();
    with_object_.reset();
    driver().Complete([told = std::move(told_), lease = std::move(lease)]() mutable {
      std::move(told)(std::move(lease));
    });
  }

  const Sides sides_;
  const bool of_one_client_;
  const AcquireOptions options_;
  AcquireCallback told_;
  const base::Instant end_;
  std::vector<Lease> leases_;
  size_t first_ = 0;  // to be taken; the others come in their order, and round
  size_t taken_ = 0;
  base::Backoff backoff_{kFirstPause, kLongestPause};
  std::stop_source stopped_;
  std::optional<std::stop_callback<std::function<void()>>> by_caller_;
  std::optional<std::stop_callback<std::function<void()>>> with_object_;
};

void MultiLock::Apart::End() {
  if (!parts_.empty() && parts_.front().lock_->body_->core()->in_forked_child()) return;
  gone_.request_stop();
}

void MultiLock::Apart::AcquireAsync(const Caller& caller, const AcquireOptions& options,
                                    AcquireCallback callback) {
  absl::StatusOr<Sides> sides = bad_.ok() ? SidesFor(caller) : absl::StatusOr<Sides>(bad_);
  if (sides.ok()) {
    const auto chain =
        std::make_shared<Chain>(*this, *std::move(sides), options, std::move(callback));
    return chain->TakeNext();
  }
  if (!parts_.empty()) {
    return parts_.front().lock_->body_->core()->async().Complete(
        [told = std::move(callback), bad = base::Unshared(sides.status())]() mutable {
          std::move(told)(std::move(bad));
        });
  }
  // Of no locks, it has no client either.
  base::RunApart("redlatch-async", [told = std::make_shared<AcquireCallback>(std::move(callback)),
                                    bad = std::make_shared<absl::Status>(base::Unshared(bad_))] {
    internal::RunUsersCode("a callback", [&] { std::move (*told)(std::move(*bad)); });
  });
}

}  // namespace redlatch
