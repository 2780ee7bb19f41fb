// One process of the soak: threads that take locks in every way that there is.
#ifndef REDLATCH_TESTS_FAULT_SOAK_WORKER_H_
#define REDLATCH_TESTS_FAULT_SOAK_WORKER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/owner.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "tests/fault/soak/child.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/lock_history.h"

namespace redlatch::soak {

// One thread's work.
class Worker {
 public:
  Worker(const Client& client, support::HistoryWriter& history, Tally& tally, int thread,
         uint64_t seed, absl::Duration longest_lease)
      : history_(history),
        tally_(tally),
        thread_(thread),
        dice_(seed),
        longest_lease_(longest_lease) {
    const absl::Duration shortest = absl::Milliseconds(300);
    for (int lock = 0; lock < kLocks; ++lock) {
      for (absl::Duration lease : {shortest, (shortest + longest_lease) / 2, longest_lease}) {
        locks_.push_back(MakeLock(client, lock, {.lease = lease}));
      }
    }
  }

  void Work(const std::atomic<bool>& stopping) {
    while (!stopping && !history_.full()) {
      const int which = dice_.Below(static_cast<int>(locks_.size()));
      lock_ = which * kLocks / static_cast<int>(locks_.size());
      owner_ = Owner();
      if (dice_.OneIn(3)) {
        ThroughStdFace(*locks_[static_cast<size_t>(which)]);
      } else {
        ThroughStatusFace(*locks_[static_cast<size_t>(which)]);
      }
      if (dice_.OneIn(4)) Pass(dice_.Between(absl::ZeroDuration(), absl::Milliseconds(20)));
    }
  }

 private:
  void ThroughStdFace(RedisLockBase& lock) {
    const int way = dice_.Below(4);
    const absl::Duration wait =
        way == 0 ? absl::ZeroDuration() : dice_.Between(absl::Milliseconds(1), longest_lease_);
    const uint32_t number = history_.Invoke(lock_, thread_, /*waits=*/way > 1);
    bool held = true;
    try {
      if (way == 0) held = lock.try_lock();
      if (way == 1) held = lock.try_lock_for(absl::ToChronoNanoseconds(wait));
      if (way > 1) lock.lock();
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable)) << error.what();
      history_.Refused(number);
      ++tally_.unreachable;
      return;
    }
    if (!held) {
      history_.Refused(number);
      ++tally_.busy;
      return;
    }
    Hold(number, lock.current(), lock);
    history_.ReleaseInvoked(number);
    lock.unlock();
  }

  void ThroughStatusFace(RedisLockBase& lock) {
    AcquireOptions options;
    const int way = dice_.Below(5);
    if (way < 2) options.wait = dice_.Between(absl::Milliseconds(1), longest_lease_);
    if (way == 1) options.lease = dice_.Between(absl::Milliseconds(300), longest_lease_);
    if (way == 2) options.wait = absl::ZeroDuration();
    // A thread of each process has the name.
    if (lock_ % 2 == 1 && dice_.OneIn(4)) owner_ = Owner(absl::StrCat("job-", thread_));
    options.owner = owner_;
    const int owner = owner_.is_calling_thread() ? thread_ : -1 - thread_;
    const uint32_t number = history_.Invoke(lock_, owner, /*waits=*/way > 2);
    absl::StatusOr<Lease> lease = lock.Acquire(options);
    if (!lease.ok()) {
      history_.Refused(number);
      EXPECT_TRUE(IsBusy(lease.status()) || absl::IsUnavailable(lease.status())) << lease.status();
      ++(IsBusy(lease.status()) ? tally_.busy : tally_.unreachable);
      return;
    }
    Hold(number, *lease, lock);
    if (options.lease && dice_.OneIn(2)) {
      const absl::Status extended = lease->Extend(*options.lease);
      EXPECT_TRUE(extended.ok() || IsLeaseLost(extended) || absl::IsUnavailable(extended))
          << extended;
      Sample(number, *lease);
    }
    history_.ReleaseInvoked(number);
    if (dice_.OneIn(8)) return;  // the destructor's part
    for (int i = 0; i < 3; ++i) {
      const absl::Status released = lease->Release();
      EXPECT_TRUE(released.ok() || IsLeaseLost(released) || absl::IsUnavailable(released))
          << released;
      if (!absl::IsUnavailable(released)) break;
    }
  }

  // False: it is over.
  bool Sample(uint32_t number, const redlatch::Hold& hold) {
    const base::Instant asked = base::Now();
    const absl::Duration remaining = hold.remaining();
    history_.Remaining(number, asked, remaining);
    if (hold.lost().stop_requested()) history_.Lost(number);
    return remaining > absl::ZeroDuration();
  }

  void Hold(uint32_t number, const redlatch::Hold& hold, RedisLockBase& lock) {
    history_.Held(number, hold.fencing_token().value());
    ++tally_.held;
    if (!Sample(number, hold)) return;
    if (lock_ % 2 == 1 && dice_.OneIn(3)) Reenter(number, lock);
    const int kind = dice_.Below(200);
    absl::Duration time = dice_.Between(absl::ZeroDuration(), absl::Milliseconds(2));
    if (kind < 30) time *= 10;
    if (kind == 0) time = dice_.Between(absl::ZeroDuration(), longest_lease_ * 1.2);
    const base::Instant end = base::Now() + time;
    while (base::Now() < end) {
      Pass(std::min(base::Until(end), absl::Milliseconds(20)));
      if (!Sample(number, hold) && dice_.OneIn(2)) return;
    }
  }

  // An owner is never kept from what it has; where it is lost meanwhile, it is acquired anew, and
  // that is another acquisition.
  void Reenter(uint32_t outer, RedisLockBase& lock) {
    const int owner = owner_.is_calling_thread() ? thread_ : -1 - thread_;
    const uint32_t number = history_.Invoke(lock_, owner, /*waits=*/false);
    absl::StatusOr<Lease> again = lock.Acquire({.wait = absl::ZeroDuration(), .owner = owner_});
    if (!again.ok()) {
      history_.Refused(number);
      EXPECT_TRUE(IsBusy(again.status()) || absl::IsUnavailable(again.status())) << again.status();
      return;
    }
    // Of the same hold: nothing that the history does not have.
    if (history_.TokenOf(outer) == again->fencing_token().value()) {
      history_.Refused(number);
    } else {
      history_.Held(number, again->fencing_token().value());
      Sample(number, *again);
    }
    history_.ReleaseInvoked(number);
    (void)again->Release();
  }

  support::HistoryWriter& history_;
  Tally& tally_;
  const int thread_;
  Dice dice_;
  const absl::Duration longest_lease_;
  std::vector<std::unique_ptr<RedisLockBase>> locks_;
  int lock_ = 0;
  Owner owner_;
};

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_WORKER_H_
