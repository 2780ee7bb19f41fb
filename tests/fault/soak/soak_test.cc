// Many processes lock in every way that there is, under every fault: see soak.h. Then the history
// of it all is checked, see tests/support/history_check/history_check.md.
#include "tests/fault/soak/soak.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/owner.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "tests/fault/soak/child.h"
#include "tests/fault/soak/plan.h"
#include "tests/fault/soak/worker.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_check/history_event.h"

namespace redlatch::soak {
namespace {

class LockWorker : public Worker {
 public:
  explicit LockWorker(const Task& task) : Worker(task) {
    for (int lock = 0; lock < kLocks; ++lock) {
      for (const absl::Duration lease : Leases()) {
        locks_.push_back(MakeLock(task.client, lock, {.lease = lease}));
      }
    }
  }

 private:
  void Round() override {
    const int which = dice_.Below(static_cast<int>(locks_.size()));
    lock_ = which * kLocks / static_cast<int>(locks_.size());
    owner_ = Owner();
    RedisLockBase& lock = *locks_[static_cast<size_t>(which)];
    dice_.OneIn(3) ? ThroughStdFace(lock) : ThroughStatusFace(lock);
  }

  void ThroughStdFace(RedisLockBase& lock) {
    const Way way = AnyWay();
    const uint32_t number = Invoke(/*waits=*/way == Way::kWait);
    const bool held = Enters(number, way, [&](Way how, std::chrono::nanoseconds wait) {
      if (how == Way::kTry) return lock.try_lock();
      if (how == Way::kTryFor) return lock.try_lock_for(wait);
      lock.lock();
      return true;
    });
    if (!held) return;
    Hold(number, lock.current(), lock);
    history_.ReleaseInvoked(number);
    lock.unlock();
  }

  void ThroughStatusFace(RedisLockBase& lock) {
    AcquireOptions options = AnyOptions();
    // A thread of each process has the name.
    if (lock_ % 2 == 1 && dice_.OneIn(4)) owner_ = Owner(absl::StrCat("job-", thread_));
    options.owner = owner_;
    const uint32_t number = Invoke(Waits(options));
    absl::StatusOr<Lease> lease = lock.Acquire(options);
    if (!Entered(number, lease.status())) return;
    Hold(number, *lease, lock);
    MayExtend(number, *lease, options);
    Release(number, *lease);
  }

  uint32_t Invoke(bool waits) {
    return history_.Invoke(NameOf(lock_),
                           lock_ % 2 == 1 ? history::Kind::kReentrant : history::Kind::kLock,
                           owner_.is_calling_thread() ? thread_ : -1 - thread_, waits);
  }

  void Hold(uint32_t number, const redlatch::Hold& hold, RedisLockBase& lock) {
    Holds(number, hold.fencing_token().value());
    if (!Sample(number, hold)) return;
    if (lock_ % 2 == 1 && dice_.OneIn(3)) Reenter(lock);
    Keep(number, hold);
  }

  // An owner is never kept from what it has; where it is lost meanwhile, it is acquired anew, and
  // that is another acquisition.
  void Reenter(RedisLockBase& lock) {
    const uint32_t number = Invoke(/*waits=*/false);
    absl::StatusOr<Lease> again = lock.Acquire({.wait = absl::ZeroDuration(), .owner = owner_});
    if (!again.ok()) {
      history_.Refused(number, IsBusy(again.status()));
      EXPECT_TRUE(IsBusy(again.status()) || absl::IsUnavailable(again.status())) << again.status();
      return;
    }
    history_.Held(number, again->fencing_token().value());
    Sample(number, *again);
    history_.ReleaseInvoked(number);
    (void)again->Release();
  }

  std::vector<std::unique_ptr<RedisLockBase>> locks_;
  int lock_ = 0;
  Owner owner_;
};

REDLATCH_CHILD(SoakingLocks) { return RunWorkers<LockWorker>(parent, args); }

class Soak : public SoakTest {
 protected:
  // All that has no business to be there, once every lease is over.
  void ExpectOnlyFencesWithin(absl::Duration patience) {
    std::vector<std::string> left;
    (void)support::Await(
        [&] {
          left.clear();
          for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
            EXPECT_NE(server_->Integer({"PTTL", key.text}), -1) << key.text;
            const bool stays =
                key.text.ends_with(":fence") || key.text.starts_with("redlatch:client:");
            if (!stays) left.push_back(key.text);
          }
          return left.empty();
        },
        patience);
    EXPECT_EQ(absl::StrJoin(left, ", "), "");
  }
};

TEST_F(Soak, OfManyProcessesUnderEveryFaultNeverShowsTwoHolders) {
  Run("SoakingLocks");
  const base::Instant ended = base::Now();
  ExpectOnlyFencesWithin(2 * longest_lease_ + kSlack);
  const absl::Duration cleaning = base::Now() - ended;

  ExpectAllIsTrue();
  std::printf("keys gone after %.1f s\n", absl::ToDoubleSeconds(cleaning));
}

}  // namespace
}  // namespace redlatch::soak
