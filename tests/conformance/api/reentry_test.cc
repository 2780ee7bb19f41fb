// Locking a lock twice: a simple lock refuses it, a reentrant lock admits its owner.

#include "redlatch/owner.h"
#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

struct Reentry : WithOther {
  const Client client_ = NewClient();
  const std::unique_ptr<RedisLockBase> lock_ = NewLock(client_);
};

class NoReentry : public Reentry {};

TEST_P(NoReentry, LockingTwiceThrowsDeadlock) {
  const std::scoped_lock guard(*lock_);
  try {
    lock_->lock();
    FAIL() << "locked twice";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::resource_deadlock_would_occur) << error.what();
  }
  EXPECT_FALSE(lock_->try_lock());
  EXPECT_FALSE(lock_->try_lock_for(std::chrono::seconds(5)));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  EXPECT_FALSE(lock_->try_lock_until(deadline));
  EXPECT_LT(std::chrono::steady_clock::now(), deadline) << "it waited for itself";
  EXPECT_EQ(lock_->hold_count(), 1);
  EXPECT_TRUE(lock_->current().valid());
}

TEST_P(NoReentry, AcquireOfOwnLockIsBusy) {
  const std::scoped_lock guard(*lock_);
  EXPECT_EQ(CodeOf(Try(*lock_)), kBusy);
  const auto again = lock_->Acquire({.wait = absl::Milliseconds(10)});
  EXPECT_EQ(CodeOf(again), kBusy);
  EXPECT_THAT(again.status().message(), HasSubstr("this thread already holds it"));
}

TEST_P(NoReentry, BusyErrorTellsHolder) {
  const std::scoped_lock guard(*lock_);
  absl::Status here, elsewhere;
  std::thread([&] { here = lock_->Acquire({.wait = absl::Milliseconds(10)}).status(); }).join();
  elsewhere = NewLock(other_)->Acquire({.wait = absl::Milliseconds(10)}).status();
  EXPECT_THAT(here.message(), HasSubstr("another call of this client holds it"));
  EXPECT_THAT(elsewhere.message(), HasSubstr("someone else holds it"));
}

struct Recursion : Reentry {
  // The number of holds in the lock's hash.
  int64_t HoldsAtTheServer() {
    if (GetParam().kind.redisson) {
      return server().Integer({"HLEN", Key()}) - server().Integer({"HEXISTS", Key(), "mode"});
    }
    const std::string holds = server().Text({"HGET", Key(), "holds"});
    return holds.empty() ? server().Integer({"HLEN", Key()}) - 2 : std::stoll(holds);
  }
};

TEST_P(Recursion, LastUnlockReleases) {
  for (int depth = 1; depth <= 3; ++depth) {
    lock_->lock();
    EXPECT_EQ(lock_->hold_count(), depth);
  }
  EXPECT_TRUE(lock_->try_lock());
  EXPECT_EQ(lock_->hold_count(), 4);
  for (int depth = 4; depth >= 1; --depth) {
    EXPECT_TRUE(BusyForOthers());
    EXPECT_EQ(lock_->hold_count(), depth);
    lock_->unlock();
  }
  EXPECT_EQ(lock_->hold_count(), 0);
  EXPECT_TRUE(FreeForOthers());
}

TEST_P(Recursion, LockAndLeaseShareOneHold) {
  lock_->lock();
  auto lease = Must(Try(*lock_));
  EXPECT_EQ(lock_->hold_count(), 2);
  EXPECT_EQ(lease.fencing_token(), lock_->current().fencing_token());
  EXPECT_EQ(HoldsAtTheServer(), 1);
  lock_->unlock();
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(BusyForOthers());
  EXPECT_OK(lease.Release());
  EXPECT_TRUE(FreeForOthers());
}

TEST_P(Recursion, ReentryWithoutLeaseStartsRenewals) {
  const absl::Duration lease = absl::Seconds(5);
  auto manual = Must(lock_->Acquire({.lease = lease}));
  const absl::Duration left = manual.remaining();
  base::Instant until = base::Now() + left;
  auto again = Must(lock_->Acquire({.lease = lease}));
  const base::Instant now = base::Now();
  EXPECT_LE(now + manual.remaining(), until + absl::Milliseconds(1));
  lock_->lock();
  const auto renewed = [&] { return base::Now() + lock_->current().remaining() > until; };
  until = until + absl::Milliseconds(1);
  EXPECT_TRUE(Await(renewed));
  EXPECT_OK(manual.Extend(2 * lease));
  EXPECT_GT(manual.remaining(), lease);
  lock_->unlock();
  EXPECT_TRUE(manual.valid());
}

// In Redisson's locks, an Owner belongs to one client.
class SharedOwner : public Recursion {};

TEST_P(SharedOwner, ReentersFromAnyThreadAndClient) {
  const Owner owner("job-42");
  auto lease = Must(support::AcquireAs(*lock_, owner));
  Crew().Start([&] {
    const auto again = Must(support::AcquireAs(*lock_, owner, {.wait = absl::Milliseconds(100)}));
  });
  std::optional<Lease> elsewhere;
  Crew().Start([&] {
    auto again =
        Must(support::AcquireAs(*NewLock(other_), owner, {.wait = absl::Milliseconds(100)}));
    if (GetParam().kind.name == "reentrant") {  // a store accepts writes from both
      EXPECT_EQ(again.fencing_token(), lease.fencing_token());
    }
    elsewhere = std::move(again);
  });
  EXPECT_EQ(HoldsAtTheServer(), 2);
  EXPECT_OK(lease.Release());
  EXPECT_EQ(CodeOf(Try(client_)), kBusy);
  ASSERT_TRUE(elsewhere);
  EXPECT_TRUE(elsewhere->valid());
  EXPECT_OK(elsewhere->Release());
  EXPECT_OK(Try(client_));
}

TEST_P(Recursion, OtherOwnersAndCallingThreadAreExcluded) {
  const auto lease = Must(support::AcquireAs(*lock_, Owner("one")));
  EXPECT_EQ(CodeOf(support::AcquireAs(*lock_, Owner("two"), {.wait = absl::ZeroDuration()})),
            kBusy);
  EXPECT_EQ(CodeOf(Try(*lock_)), kBusy);
  EXPECT_FALSE(lock_->try_lock());
  EXPECT_EQ(lock_->hold_count(), 0);
}

// Each thread waits inside for all others, so the test hangs if one is not admitted.
TEST_P(SharedOwner, OneHandoverAdmitsAllItsThreads) {
  const Owner owner("crew");
  const LockOptions hour = LeaseOf(absl::Hours(1));  // so no heartbeat admits a thread
  auto held = Must(NewLock(client_, kName, hour)->Acquire());
  const Client clients[] = {NewClient(), NewClient()};
  std::atomic<int> inside = 0;
  Crew crew;
  for (const Client& client : clients) {
    crew.Start(4, [&](int) {
      const auto lock = NewLock(client, kName, hour);
      auto lease = Must(support::AcquireAs(*lock, owner, {.wait = kTestTimeout}));
      ++inside;
      EXPECT_TRUE(Await([&] { return inside == 8; }));
      EXPECT_OK(lease.Release());
    });
  }
  ASSERT_TRUE(AwaitQueued(2));
  EXPECT_TRUE(Await([&] {
    uint64_t waiting = 0;
    for (const Client& client : clients) waiting += client.Stats().all.waiting;
    return waiting == 8;
  }));
  EXPECT_OK(held.Release());
  crew.Join();
  for (const Client& client : clients) EXPECT_EQ(client.Stats().all.acquired, 1);
}

INSTANTIATE_CONFORMANCE(NoReentry, Where(WithoutSmoke(LockCases()),
                                         [](const Case& each) { return !each.kind.reentrant; }));
INSTANTIATE_CONFORMANCE(Recursion, Where(WithoutSmoke(LockCases()),
                                         [](const Case& each) { return each.kind.reentrant; }));
INSTANTIATE_CONFORMANCE(SharedOwner, Where(WithoutSmoke(LockCases()), [](const Case& each) {
                          return each.kind.reentrant && !each.kind.redisson;
                        }));

}  // namespace
}  // namespace redlatch::conformance
