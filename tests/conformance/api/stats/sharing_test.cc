// Client::Stats() of what several have at a time, or nobody has: readers, permits, latches.
#include <memory>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/stats.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/conformance/api/read_write/fixture.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/conformance/api/stats/matcher.h"

namespace redlatch::conformance {
namespace {

using ::testing::ElementsAre;

class ReadWriteStats : public ReadWriteConformance {
 protected:
  LockStats Of() { return StatsOf(client_, kName); }
};

TEST_P(ReadWriteStats, EachReaderHasAHoldAndThoseWhoJoinDoNotAskTheServer) {
  const auto lock = NewReadWrite(client_, {.lease = kLease, .local_window = absl::Seconds(10)});
  auto first = lock->AcquireRead();
  ASSERT_OK(first);
  Crew().Start([&] {
    const std::shared_lock reads(*lock);
    EXPECT_THAT(Of(), Counts({.acquired = 2, .passed_on = 1, .held = 2}));
  });
  EXPECT_THAT(Of(), Counts({.acquired = 2, .passed_on = 1, .released = 1, .held = 1}));
  EXPECT_OK(first->Release());
  EXPECT_THAT(Of(), Counts({.acquired = 2, .passed_on = 1, .released = 2}));
}

TEST_P(ReadWriteStats, ReadingAgainIsNoHoldOfItsOwn) {
  lock_->lock_shared();
  lock_->lock_shared();
  EXPECT_THAT(Of(), Counts({.acquired = 1, .held = 1}));
  lock_->unlock_shared();
  lock_->unlock_shared();
  EXPECT_THAT(Of(), Counts({.acquired = 1, .released = 1}));
}

TEST_P(ReadWriteStats, AWriterThatReadsHasTwo) {
  lock_->lock();
  lock_->lock_shared();
  EXPECT_THAT(Of(), Counts({.acquired = 2, .held = 2}));
  lock_->unlock();
  lock_->unlock_shared();
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 2}));
}

TEST_P(ReadWriteStats, AReaderWhoIsSentToTheNextGroupIsCountedOnce) {
  auto first = lock_->AcquireRead();
  ASSERT_OK(first);
  Crew crew;
  crew.Start([&] { EXPECT_OK(theirs_->Acquire({.wait = kPatience})); });
  ASSERT_TRUE(AwaitWaiting(1));
  PassLocalWindow();
  crew.Start([&] { EXPECT_OK(lock_->AcquireRead({.wait = kPatience})); });
  ASSERT_TRUE(Await([&] { return Of().waiting == 1; }));
  EXPECT_OK(first->Release());
  crew.Join();
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 2}));
}

TEST_P(ReadWriteStats, BusyReadersAndMisuseAreCounted) {
  const auto writes = theirs_->Acquire();
  ASSERT_OK(writes);
  EXPECT_EQ(CodeOf(lock_->AcquireRead({.wait = absl::Milliseconds(100)})), kBusy);
  lock_->unlock_shared();
  EXPECT_THAT(Of(), Counts({.busy = 1, .misused = 1}));
  EXPECT_EQ(heard_->Count("misuse"), 1);
}

TEST_P(ReadWriteStats, ReadersOfALostHoldHaveLostOneEach) {
  const auto lock = NewReadWrite(client_, {.lease = kLease, .local_window = absl::Seconds(10)});
  auto first = lock->AcquireRead();
  ASSERT_OK(first);
  std::vector<Lease> second;
  Crew().Start([&] { second.push_back(*lock->AcquireRead()); });
  EXPECT_OK(theirs_->ForceRelease());
  ASSERT_TRUE(heard_->Await("lost", 2));
  EXPECT_THAT(Of(), Counts({.acquired = 2, .passed_on = 1, .lost = 2}));
}

INSTANTIATE_TEST_SUITE_P(Locks, ReadWriteStats, ::testing::Values(ReadWriteCases()[0]), NameOfCase);

class SemaphoreStats : public SemaphoreOfThree {
 protected:
  LockStats Of() { return StatsOf(client_, kName); }
};

TEST_P(SemaphoreStats, AnAcquisitionIsAHoldOfSoManyPermits) {
  auto two = semaphore_->Acquire(2, {.wait = kPatience});
  auto one = semaphore_->Acquire(1, {.wait = kPatience});
  ASSERT_OK(two);
  ASSERT_OK(one);
  EXPECT_THAT(Of(), Counts({.acquired = 2, .held = 2, .permits = 3}));
  EXPECT_EQ(CodeOf(semaphore_->Acquire(1, {.wait = absl::Milliseconds(100)})), kBusy);
  EXPECT_OK(two->Release());
  EXPECT_THAT(Of(), Counts({.acquired = 2, .busy = 1, .released = 1, .held = 1, .permits = 1}));
  EXPECT_OK(one->Release());
  EXPECT_THAT(Of(), Counts({.acquired = 2, .busy = 1, .released = 2}));
}

TEST_P(SemaphoreStats, PermitsOfTheStandardFaceAreCountedAndThoseWhoWait) {
  for (int i = 0; i < kCapacity; ++i) semaphore_->acquire();
  {
    Waiter waiter(*semaphore_);
    ASSERT_TRUE(Await([&] { return Of().waiting == 1; }));
    EXPECT_THAT(Of(), Counts({.acquired = 3, .held = 3, .permits = 3, .waiting = 1}));
    semaphore_->release();
    EXPECT_OK(waiter.status());
  }
  semaphore_->release(2);
  EXPECT_THAT(Of(), Counts({.acquired = 4, .released = 4}));
}

TEST_P(SemaphoreStats, NumbersOfManyAcquisitionsAreThoseOfOneName) {
  constexpr int kRounds = 20;
  Crew crew;
  crew.Start(2 * kCapacity, [&](int) {
    for (int i = 0; i < kRounds; ++i) EXPECT_OK(semaphore_->Acquire(1, {.wait = kPatience}));
  });
  crew.Join();
  EXPECT_THAT(NamesOf(client_), ElementsAre(kName));
  EXPECT_THAT(Of(),
              Counts({.acquired = 2 * kCapacity * kRounds, .released = 2 * kCapacity * kRounds}));
}

TEST_P(SemaphoreStats, LostPermitsAreNotHeldAnyMore) {
  auto permit = semaphore_->Acquire(2, {.wait = kPatience});
  ASSERT_OK(permit);
  EXPECT_OK(theirs_->ForceRelease());
  ASSERT_TRUE(heard_->Await("lost"));
  EXPECT_THAT(Of(), Counts({.acquired = 1, .lost = 1}));
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreStats);

class LatchStats : public LatchConformance {
 protected:
  LockStats Of() { return StatsOf(client_, kName); }

  const Client client_ = NewClient();
  const std::unique_ptr<CountDownLatch> latch_ = NewLatch(client_, 1);
};

TEST_P(LatchStats, WaitsEndAsItOpensAndNothingIsHeld) {
  constexpr int kThreads = 3;
  Crew crew;
  crew.Start(kThreads, [&](int) { EXPECT_OK(PatientWait(*latch_)); });
  ASSERT_TRUE(Await([&] { return Of().waiting == kThreads; }));
  EXPECT_EQ(CodeOf(WaitFor(*latch_, absl::Milliseconds(20))), kBusy);
  EXPECT_THAT(Of(), Counts({.busy = 1, .waiting = kThreads}));
  EXPECT_OK(latch_->CountDown());
  crew.Join();
  EXPECT_THAT(Of(), Counts({.opened = kThreads, .busy = 1}));
  EXPECT_OK(PatientWait(*latch_));  // it is open
  EXPECT_THAT(Of(), Counts({.opened = kThreads + 1, .busy = 1}));
}

INSTANTIATE_FOR_LATCH_OVER_TCP(LatchStats);

}  // namespace
}  // namespace redlatch::conformance
