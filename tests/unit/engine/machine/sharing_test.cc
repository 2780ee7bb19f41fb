// Machines of semaphores, where each hold stands for itself, and of latches, where nothing is held.
#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

class PermitMachineTest : public LockMachineTest {
 protected:
  PermitMachineTest() { Make({.sharing = kPermits}); }

  static Answer Permitted() { return Granted(0, kLease, 0); }
};

TEST_F(PermitMachineTest, AsksForAsManyAsAreWanted) {
  Acquire({.permits = 3, .capacity = 8});
  const Send send = Fetch(Operation::kAcquire);
  EXPECT_EQ(send.bid.block, 3U);
  EXPECT_EQ(send.bid.terms.capacity, 8U);
  Hear(send, Silence());
  Pass(kThird);
  EXPECT_EQ(Fetch(Operation::kAcquire).bid.block, 3U);
}

TEST_F(PermitMachineTest, GivesNoTokensBack) {
  Waiter& waiter = Acquire({.permits = 3});
  Hear(Fetch(Operation::kAcquire), Permitted());
  EXPECT_EQ(waiter.token, FencingToken());
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kUnderWay);
  const Send release = Fetch(Operation::kRelease);
  EXPECT_EQ(release.last_used, release.last_reserved);
  EXPECT_FALSE(release.tombstone);
  Hear(release, ReleasedThen());
  EXPECT_EQ(machine().Outcome(waiter.hold).kind, Kind::kDone);
  EXPECT_TRUE(machine().idle());
}

TEST_F(PermitMachineTest, AHoldNeverPassesOnToWhoWaitsHere) {
  Waiter& holder = Acquire({.thread = 1});
  Hear(Fetch(Operation::kAcquire), Permitted());
  const Waiter& other = Acquire({.thread = 2});
  Release(holder.hold);
  EXPECT_EQ(other.state, State::kWaiting);
  const Send release = Fetch(Operation::kRelease);
  EXPECT_EQ(release.bid.grant, 0U);
  EXPECT_NE(Fetch(Operation::kAcquire).grant, release.grant);
}

TEST_F(PermitMachineTest, AWaiterThatIsToldOfAChangeAsksAtOnce) {
  const Waiter& waiter = Queue({.permits = 3});
  ASSERT_TRUE(Quiet());
  machine().OnForced(machine().grant(), now());
  const Send send = Fetch(Operation::kAcquire);
  Hear(send, Refusal(absl::FailedPreconditionError("too many")));
  EXPECT_EQ(waiter.state, State::kFailed);
  EXPECT_EQ(waiter.failure.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Fetch(Operation::kCancel).grant, send.grant);  // it may be queued again
}

TEST_F(PermitMachineTest, AChangeThatCrossesAHeartbeatIsAskedForAgain) {
  Queue({.permits = 3});
  Pass(kThird);
  const Send heartbeat = Fetch(Operation::kAcquire);
  machine().OnForced(heartbeat.grant, now());
  EXPECT_TRUE(Quiet());
  Hear(heartbeat, Queued());
  EXPECT_EQ(Fetch(Operation::kAcquire).grant, heartbeat.grant);
}

TEST_F(PermitMachineTest, AChangeOfAnotherHoldIsNoneOfItsBusiness) {
  Queue();
  machine().OnForced(machine().grant() + 1, now());
  EXPECT_TRUE(Quiet());
}

class LatchMachineTest : public LockMachineTest {
 protected:
  LatchMachineTest() { Make({.sharing = kLatch}); }

  Send QueueAll() {
    for (uint64_t thread = 1; thread <= 3; ++thread) {
      waiting_.push_back(&Acquire({.thread = thread}));
    }
    const Send send = Fetch(Operation::kAcquire);
    EXPECT_TRUE(Quiet());  // one bid for all
    Hear(send, Queued());
    return send;
  }
  void ExpectAllThrough() {
    for (const Waiter* waiter : waiting_) {
      EXPECT_EQ(waiter->state, State::kGranted);
      EXPECT_EQ(waiter->hold, 0U);
      EXPECT_TRUE(Woken(*waiter));
    }
    EXPECT_TRUE(Quiet());
    EXPECT_TRUE(machine().idle());
  }

  std::vector<Waiter*> waiting_;
};

TEST_F(LatchMachineTest, AMessageLetsAllThroughAndNothingIsHeld) {
  EXPECT_TRUE(HearGrant(GrantOf(QueueAll(), 0)));
  ExpectAllThrough();
}

TEST_F(LatchMachineTest, AnAnswerLetsAllThroughAndNothingIsHeld) {
  QueueAll();
  Pass(kThird);
  Hear(Fetch(Operation::kAcquire), Granted(0, kLease, 0));
  ExpectAllThrough();
}

TEST_F(LatchMachineTest, AGrantIsGoodHoweverLateItComes) {
  const Send send = QueueAll();
  Pass(100 * kLease);
  EXPECT_TRUE(HearGrant(GrantOf(send, 0)));
  ExpectAllThrough();
}

TEST_F(LatchMachineTest, WhatWasUnderWayWhenTheMessageCameNeedsNoCancel) {
  QueueAll();
  Pass(kThird);
  const Send heartbeat = Fetch(Operation::kAcquire);
  EXPECT_TRUE(HearGrant(GrantOf(heartbeat, 0)));
  Hear(heartbeat, Granted(0, kLease, 0));
  EXPECT_TRUE(Quiet());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LatchMachineTest, WhoComesWhileOthersWaitAsksForNothing) {
  QueueAll();
  waiting_.push_back(&Acquire({.thread = 4}));
  EXPECT_TRUE(Quiet());
  GiveUp(*waiting_.front());
  EXPECT_TRUE(Quiet());  // the others wait on
  waiting_.erase(waiting_.begin());
}

TEST_F(LatchMachineTest, TheQueueIsLeftWithTheLastWaiter) {
  const Send send = QueueAll();
  for (Waiter* waiter : waiting_) GiveUp(*waiter);
  const Send cancel = Fetch(Operation::kCancel);
  EXPECT_EQ(cancel.grant, send.grant);
  Hear(cancel, Cancelled());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LatchMachineTest, ALatchThatHasVanishedFailsAll) {
  QueueAll();
  Pass(kThird);
  Hear(Fetch(Operation::kAcquire), Refusal(absl::AbortedError("it has vanished")));
  for (const Waiter* waiter : waiting_) {
    EXPECT_EQ(waiter->state, State::kFailed);
    EXPECT_EQ(waiter->failure.code(), absl::StatusCode::kAborted);
  }
}

}  // namespace
}  // namespace redlatch::engine
