// Any order of destruction: lock objects, clients, leases, threads, processes and their forked
// children.

#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"

namespace redlatch::conformance {
namespace {

using Lifetime = WithOther;

TEST_P(Lifetime, LastObjectsDestructorReleasesLock) {
  const Client client = NewClient();
  auto lock = NewLock(client);
  auto same = NewLock(client);
  lock->lock();
  same->hold_count();
  lock.reset();
  EXPECT_TRUE(BusyForOthers());
  EXPECT_EQ(same->hold_count(), 1);
  same.reset();
  EXPECT_TRUE(AwaitHeld(false));
  EXPECT_TRUE(FreeForOthers());
}

TEST_P(Lifetime, LeaseThatOutlivesItsLockReportsLoss) {
  Lease lease = *NewLock(NewClient())->Acquire();
  const std::stop_token lost = lease.lost();
  EXPECT_OK(NewLock(other_)->ForceRelease());
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  EXPECT_EQ(CodeOf(lease.Release()), kLost);
}

TEST_P(Lifetime, HoldDoesNotKeepLockHeld) {
  Hold hold;
  {
    const auto lock = NewLock(NewClient());
    const auto lease = lock->Acquire();
    hold = lease->hold();
    EXPECT_TRUE(hold.valid());
  }
  EXPECT_FALSE(hold.valid());
  EXPECT_FALSE(hold.lost().stop_requested());
  EXPECT_FALSE(IsHeld());
}

TEST_P(Lifetime, CopyOfThreadsHoldDoesNotKeepLockHeld) {
  auto lock = NewLock(NewClient());
  lock->lock();
  const Hold hold = lock->current();
  EXPECT_TRUE(hold.valid());
  lock.reset();
  EXPECT_TRUE(AwaitHeld(false));
  EXPECT_FALSE(hold.valid());
  EXPECT_EQ(hold.remaining(), absl::ZeroDuration());
  EXPECT_FALSE(hold.lost().stop_requested());
}

TEST_P(Lifetime, EndedLeaseDoesNotKeepLockHeld) {
  const Client client = NewClient();
  auto lock = NewLock(client);
  Lease released = *lock->Acquire();
  EXPECT_OK(released.Release());
  const Lease lost = *lock->Acquire();
  const std::stop_token told = lost.lost();
  EXPECT_OK(NewLock(other_)->ForceRelease());
  EXPECT_TRUE(Await([&] { return told.stop_requested(); }));
  lock->lock();
  lock.reset();
  EXPECT_TRUE(AwaitHeld(false));
}

TEST_P(Lifetime, LastObjectReleasesLockDespiteLease) {
  if (!GetParam().kind.reentrant) return;
  const Client client = NewClient();
  auto lock = NewLock(client);
  std::optional<Lease> lease = *lock->Acquire();
  lock->lock();
  lock->lock();
  lock.reset();
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(BusyForOthers());
  const auto same = NewLock(client);
  EXPECT_EQ(same->hold_count(), 1);
  lease.reset();
  EXPECT_TRUE(AwaitHeld(false));
}

TEST_P(Lifetime, DestructorCancelsCallsThatWait) {
  const auto occupied = Must(NewLock(other_)->Acquire());
  const Client client = NewClient();
  auto lock = NewLock(client);
  Crew crew;
  crew.Start([&lock = *lock] { EXPECT_EQ(CodeOf(lock.Acquire()), kCancelled); });
  ASSERT_TRUE(AwaitQueued(1));
  lock.reset();
  crew.Join();
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(Lifetime, DestructorCancelsOwnersCallsThatWait) {
  if (!GetParam().kind.reentrant) return;
  const auto occupied = Must(NewLock(other_)->Acquire());
  const Client client = NewClient();
  auto lock = NewLock(client);
  const auto same = NewLock(client);
  Crew crew;
  crew.Start(2, [&lock = *lock](int i) {
    const Owner owner(absl::StrCat("job-", i));
    EXPECT_EQ(CodeOf(support::AcquireAs(lock, owner)), kCancelled);
  });
  Crew others;
  others.Start([&] {
    EXPECT_EQ(CodeOf(support::AcquireAs(*same, Owner("x"), {.wait = absl::Seconds(1)})), kBusy);
  });
  // Redisson's servers do not tell how many wait.
  ASSERT_TRUE(Await([&] { return client.Stats().all.waiting == 3; }));
  ASSERT_TRUE(AwaitQueued(3));
  lock.reset();
  crew.Join();
}

TEST_P(Lifetime, ThreadExitDoesNotUnlock) {
  const Client client = NewClient();
  const auto lock = NewLock(client);
  Crew().Start([&] { lock->lock(); });
  EXPECT_TRUE(BusyForOthers());
  EXPECT_FALSE(lock->try_lock());
  EXPECT_EQ(lock->hold_count(), 0);
  lock->unlock();  // another thread's unlock() releases nothing
  EXPECT_TRUE(BusyForOthers());
}

TEST_P(Lifetime, ManyLocksLeaveNoThreadOrDescriptor) {
  const auto once = [&] {
    const Client client = NewClient();
    std::vector<Lease> leases;
    for (int i = 0; i < 50; ++i) {
      leases.push_back(*NewLock(client, absl::StrCat("lock", i))->Acquire());
    }
  };
  once();
  const int threads = support::ThreadCount();
  const int descriptors = support::OpenDescriptors();
  for (int i = 0; i < 3; ++i) once();
  EXPECT_TRUE(Await([&] {
    return support::ThreadCount() <= threads && support::OpenDescriptors() <= descriptors;
  })) << support::ThreadCount()
      << " threads, " << support::OpenDescriptors() << " descriptors";
}

TEST_P(Lifetime, ForkedChildLeavesItsParentsLocksAlone) {
  const auto recorder = std::make_shared<Recorder>();
  std::optional<Client> client = NewClient({}, {.observer = recorder});
  auto lock = NewLock(*client);
  auto untouched = NewLock(*client, "untouched");
  std::optional<Lease> lease = *NewLock(*client, "leased")->Acquire();
  lock->lock();
  const auto child = support::Child::Fork([&](support::LinePipe&) {
    const bool refused =
        CodeOf(lock->TryAcquire()) == kMisuse && CodeOf(untouched->TryAcquire()) == kMisuse &&
        CodeOf(lock->ForceRelease()) == kMisuse && CodeOf(lock->Inspect()) == kMisuse &&
        CodeOf(lease->Extend(kLease)) == kMisuse;
    const bool nothing = !lock->current().valid() && !lease->valid() && lock->hold_count() == 0;
    lock->unlock();
    const bool not_released = CodeOf(lease->Release()) == kMisuse;
    lease.reset();
    lock.reset();
    untouched.reset();
    client.reset();
    return refused && nothing && not_released ? 0 : 1;
  });
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_TRUE(lock->current().valid());
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(BusyForOthers());
  EXPECT_TRUE(recorder->Await("renewed", 2));  // the parent's connection is unharmed
  lock->unlock();
  EXPECT_OK(lease->Release());
  EXPECT_EQ(recorder->Count("lost"), 0);
}

INSTANTIATE_CONFORMANCE(Lifetime, OverTcp(LockCases()));

}  // namespace
}  // namespace redlatch::conformance
