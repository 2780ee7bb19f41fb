// Hand-overs by message: claims, their confirmation, looks, and messages that do not arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

class LockMachineClaimsTest : public LockMachineTest {
 protected:
  static constexpr absl::Duration kClaim = absl::Milliseconds(400);
  static constexpr absl::Duration kClaimValid = absl::Milliseconds(394);  // margin 1 % + 2 ms
  static constexpr absl::Duration kConfirmAfter = absl::Milliseconds(20);
  static constexpr absl::Duration kLook = absl::Seconds(2);

  NewGrant Claim(uint32_t attempt = 1) const {
    return {.grant = kFirst, .attempt = attempt, .token = kToken, .claim = kClaim};
  }
  // A thread that has the lock by a message.
  Waiter& Claimed(const Want& want = {}) {
    Waiter& waiter = Queue(want);
    HearGrant(Claim());
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  static Answer With(Answer answer, absl::Duration look) {
    answer.look = look;
    return answer;
  }
  static Answer Missed(Answer answer) {
    answer.missed = true;
    return answer;
  }
  // A client that has released, and by that handed the lock to another.
  void HandOver() {
    Waiter& holder = Hold();
    Release(holder.hold);
    Hear(Fetch(Operation::kRelease), With(ReleasedThen(), kLook));
    machine().Outcome(holder.hold);
  }
};

TEST_F(LockMachineClaimsTest, AHandOverIsForItsClaimUntilItIsConfirmed) {
  const base::Instant asked = now();
  Waiter& waiter = Claimed();
  EXPECT_EQ(machine().Deadline(waiter.hold), asked + kClaimValid);
  EXPECT_EQ(machine().next_send(), now() + kConfirmAfter);
  Pass(kConfirmAfter);
  const Send confirmation = Fetch(Operation::kRenew);
  EXPECT_EQ(confirmation.lease, kLease);
  Pass(absl::Milliseconds(1));
  Hear(confirmation, Held());
  EXPECT_EQ(machine().Deadline(waiter.hold), confirmation.sent + kValid);
  EXPECT_EQ(machine().next_send(), confirmation.sent + kThird);
  EXPECT_TRUE(Notices().empty()) << "it is part of the acquisition";
}

TEST_F(LockMachineClaimsTest, ASectionThatIsOverSoonIsNotConfirmed) {
  Waiter& waiter = Claimed();
  Pass(kConfirmAfter - absl::Milliseconds(1));
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kUnderWay);
  Hear(Fetch(Operation::kRelease), ReleasedThen());
  Pass(kLease);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockMachineClaimsTest, AConfirmationThatIsNotAnsweredIsRepeatedAndTheClaimIsLostAtItsEnd) {
  const base::Instant asked = now();
  Waiter& waiter = Claimed();
  Pass(kConfirmAfter);
  Hear(Fetch(Operation::kRenew), Silence());
  EXPECT_LT(machine().next_send(), now() + absl::Milliseconds(20));
  EXPECT_TRUE(Valid(waiter));
  PassTo(asked + kClaimValid - kLead);
  Expire();
  EXPECT_FALSE(Valid(waiter));
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_THAT(effects().losses[0].reason, ::testing::HasSubstr("was not confirmed in time"));
}

TEST_F(LockMachineClaimsTest, AConfirmationThatFindsNoHoldIsALoss) {
  Waiter& waiter = Claimed();
  Pass(kConfirmAfter);
  Hear(Fetch(Operation::kRenew), NotHeld());
  EXPECT_FALSE(Valid(waiter));
  EXPECT_EQ(effects().losses.size(), 1U);
}

TEST_F(LockMachineClaimsTest, AHeartbeatThatCrossesTheGrantConfirmsItAsWell) {
  Waiter& waiter = Queue();
  Pass(kThird);
  const Send heartbeat = Fetch(Operation::kAcquire);
  HearGrant(Claim(2));
  ASSERT_EQ(waiter.state, State::kGranted);
  Hear(heartbeat, Granted());
  EXPECT_EQ(machine().next_send(), heartbeat.sent + kThird) << "nothing is left to confirm";
  EXPECT_EQ(machine().Deadline(waiter.hold), heartbeat.sent + kValid);
}

TEST_F(LockMachineClaimsTest, AClaimOfWhichLittleIsLeftIsConfirmedBeforeAThreadGetsIt) {
  Waiter& waiter = Queue();
  Pass(kClaimValid - kClaim / 4 + absl::Milliseconds(1));
  EXPECT_TRUE(HearGrant(Claim()));
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_TRUE(Woken(waiter)) << "its thread is to ask";
  const Send ask = Fetch(Operation::kAcquire);  // at once
  Pass(absl::Milliseconds(3));
  Hear(ask, Granted(0, kLease, kToken + 7));
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(waiter.token.value(), kToken + 7) << "of the present grant, which may be a later one";
  EXPECT_EQ(machine().Deadline(waiter.hold), ask.sent + kValid);
}

TEST_F(LockMachineClaimsTest, AClaimThatIsOverWhenItIsHeardIsNoLoss) {
  Waiter& waiter = Queue();
  Pass(kClaim);
  HearGrant(Claim());
  Hear(Fetch(Operation::kAcquire), Queued());
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_TRUE(effects().losses.empty());
  EXPECT_GT(machine().next_send(), now());
}

TEST_F(LockMachineClaimsTest, AManualHoldGetsItsWholeLeaseBeforeAThreadGetsIt) {
  Waiter& waiter = Queue({.manual = true});
  HearGrant(Claim());
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Send ask = Fetch(Operation::kAcquire);
  EXPECT_FALSE(ask.bid.terms.manual) << "a repeat of a manual one would not extend it";
  Hear(ask, Granted());
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(machine().Deadline(waiter.hold), ask.sent + kValid);
  EXPECT_TRUE(machine().next_send().is_infinite()) << "from here on it is manual";
}

TEST_F(LockMachineClaimsTest, AThreadThatWantsTheWholeLeaseGetsNoClaim) {
  Waiter& waiter = Queue({.whole = true});
  HearGrant(Claim());
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Send ask = Fetch(Operation::kAcquire);
  Hear(ask, Granted());
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(machine().Deadline(waiter.hold), ask.sent + kValid);
  EXPECT_EQ(machine().next_send(), ask.sent + kThird) << "it is renewed";
}

TEST_F(LockMachineClaimsTest, WhatIsLeftOfAManualClaimIsNotTakenForItsLease) {
  Waiter& waiter = Queue({.manual = true});
  Pass(kThird);
  Hear(Fetch(Operation::kAcquire), Granted(0, kClaim));  // the message is lost
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_FALSE(Fetch(Operation::kAcquire).bid.terms.manual);
}

TEST_F(LockMachineClaimsTest, WhoeverHandedOverLooksWhetherTheLockWasTaken) {
  HandOver();
  EXPECT_FALSE(machine().idle());
  EXPECT_TRUE(machine().vacant());
  EXPECT_EQ(machine().next_send(), now() + kLook + absl::Milliseconds(5));
  PassTo(machine().next_send());
  const Send look = Fetch(Operation::kCancel);
  EXPECT_FALSE(look.tombstone);
  EXPECT_GT(look.grant, kFirst) << "of no hold that anybody has";
  Hear(look, With(Cancelled(), kLook));  // it had to be handed on
  PassTo(machine().next_send());
  Hear(Fetch(Operation::kCancel), Cancelled());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineClaimsTest, ALookThatIsNotAnsweredIsRepeatedAFewTimes) {
  HandOver();
  int looks = 0;
  for (; !machine().idle() && looks < 100; ++looks) {
    PassTo(machine().next_send());
    Hear(Fetch(Operation::kCancel), Silence());
  }
  EXPECT_EQ(looks, 4);
}

TEST_F(LockMachineClaimsTest, AClientThatIsGrantedTheLockMeanwhileNeedNotLook) {
  HandOver();
  Hear((Acquire(), Fetch(Operation::kAcquire)), Granted());
  EXPECT_EQ(machine().next_send(), now() + kThird);
}

TEST_F(LockMachineClaimsTest, AWaiterLooksThoughItsHeartbeatIsLaterOrItGivesUp) {
  for (const bool gives_up : {false, true}) {
    Make({});
    Waiter& waiter = Acquire();
    Hear(Fetch(Operation::kAcquire), With(Queued(), absl::Milliseconds(100)));
    const base::Instant due = now() + absl::Milliseconds(105);
    if (gives_up) {
      GiveUp(waiter);
      Hear(Fetch(Operation::kCancel), Cancelled());
    }
    EXPECT_EQ(machine().next_send(), due);
    PassTo(due);
    Hear(Fetch(Operation::kCancel), Cancelled());
    if (!gives_up) GiveUp(waiter);
  }
}

TEST_F(LockMachineClaimsTest, WhoIsDeafKeepsItsPlaceThoughItMissesMessages) {
  Acquire();
  Hear(Fetch(Operation::kAcquire), Queued());
  Answer answer = Queued();
  answer.missed = answer.deaf = true;
  PassTo(machine().next_send());
  Hear(Fetch(Operation::kAcquire), answer);
  PassTo(machine().next_send());
  EXPECT_EQ(Fetch(Operation::kAcquire).bid.ticket, 77);
}

TEST_F(LockMachineClaimsTest, WhoeverDropsAWindowOfDeadWaitersGoesOnAtOnce) {
  Waiter& holder = Hold();
  Release(holder.hold);
  Hear(Fetch(Operation::kRelease), With(ReleasedThen(), absl::Milliseconds(1)));
  Hear(Fetch(Operation::kCancel), With(Cancelled(), absl::Milliseconds(1)));
  Hear(Fetch(Operation::kCancel), Cancelled());
  EXPECT_TRUE(Quiet());

  Acquire({.patience = Patience::kNone});
  Hear(Fetch(Operation::kAcquire), With(Busy(), absl::Milliseconds(1)));
  Fetch(Operation::kCancel);
}

class LockMachinePermitClaimsTest : public LockMachineClaimsTest {
 protected:
  LockMachinePermitClaimsTest() { Make({.sharing = kPermits}); }

  // It let a window of waiters in for their claims, and is to go on.
  static Answer ToGoOn(Answer answer, absl::Duration later = absl::ZeroDuration()) {
    answer.look = absl::Milliseconds(1);
    answer.look_later = later;
    return answer;
  }
};

TEST_F(LockMachinePermitClaimsTest, WhatIsHandedOverOnTheWayIsLookedAfterWhenThatIsDone) {
  Waiter& holder = Hold();
  Release(holder.hold);
  Hear(Fetch(Operation::kRelease), ToGoOn(ReleasedThen(), kLook));
  machine().Outcome(holder.hold);
  const base::Instant due = now() + kLook + absl::Milliseconds(5);
  for (int i = 0; i < 3; ++i) {
    Pass(absl::Milliseconds(1));
    Hear(Fetch(Operation::kCancel), i < 2 ? ToGoOn(Cancelled()) : Cancelled());
  }
  EXPECT_EQ(machine().next_send(), due);
  PassTo(due);
  Hear(Fetch(Operation::kCancel), Cancelled());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachinePermitClaimsTest, OneThatGetsInByTheReplyLooksAfterTheOthersAllTheSame) {
  Acquire();
  Hear(Fetch(Operation::kAcquire), ToGoOn(Granted(), kLook));
  const base::Instant due = now() + kLook + absl::Milliseconds(5);
  Hear(Fetch(Operation::kCancel), Cancelled());
  Pass(kThird);
  Hear(Fetch(Operation::kRenew), Held());
  PassTo(due);
  Fetch(Operation::kCancel);
}

TEST_F(LockMachinePermitClaimsTest, AWaiterThatGoesOnByItsHeartbeatLooksAfterTheOthersToo) {
  Acquire();
  Hear(Fetch(Operation::kAcquire), ToGoOn(Queued(), absl::Milliseconds(500)));
  const base::Instant due = now() + absl::Milliseconds(505);
  Hear(Fetch(Operation::kAcquire), Queued());
  EXPECT_EQ(machine().next_send(), due);
  PassTo(due);
  Fetch(Operation::kCancel);
}

TEST_F(LockMachineClaimsTest, AGrantThatWasMissedMakesTheSubscriptionAnewBeforeTheNextAttempt) {
  Waiter& waiter = Queue();
  Pass(kThird);
  Hear(Fetch(Operation::kAcquire), Missed(Granted()));
  ASSERT_EQ(waiter.state, State::kGranted);
  Release(waiter.hold);
  Hear(Fetch(Operation::kRelease), ReleasedThen());
  machine().Outcome(waiter.hold);
  Acquire();
  EXPECT_TRUE(Fetch(Operation::kAcquire).anew);
}

TEST_F(LockMachineClaimsTest, AMessageThatComesLaterThanTheReplyWasNotMissed) {
  Waiter& waiter = Queue();
  Pass(kThird);
  Hear(Fetch(Operation::kAcquire), Missed(Granted()));
  HearGrant(Claim());
  Release(waiter.hold);
  Acquire();
  EXPECT_FALSE(Fetch(Operation::kRelease).anew);
}

TEST_F(LockMachineClaimsTest, ARepeatOfAnUnansweredFirstAttemptMissedNothing) {
  Acquire();
  Hear(Fetch(Operation::kAcquire), Silence());
  Pass(kThird);
  Hear(Fetch(Operation::kAcquire), Missed(Queued()));
  Pass(kThird);
  const Send next = Fetch(Operation::kAcquire);
  EXPECT_FALSE(next.anew);
  EXPECT_EQ(next.bid.ticket, 77U);
}

TEST_F(LockMachineClaimsTest, WhoeverMissedOneComesLastUntilAMessageReachesIt) {
  Queue();
  Pass(kThird);
  Hear(Fetch(Operation::kAcquire), Missed(Queued()));
  Pass(kThird);
  const Send again = Fetch(Operation::kAcquire);
  EXPECT_TRUE(again.anew);
  EXPECT_EQ(again.bid.ticket, 0U) << "the place that the server still knows, else the last";
  Hear(again, Queued());
  HearGrant(Claim(again.bid.attempt));
  Waiter& next = Acquire({.thread = 2});
  Release(1);
  EXPECT_EQ(next.state, State::kWaiting);
}

TEST_F(LockMachineClaimsTest, OneWhoseChannelHasNoSubscriberAtTheServerPolls) {
  Acquire();
  Answer deaf = Queued();
  deaf.deaf = true;
  for (int i = 0; i < 10; ++i) {
    Hear(Fetch(Operation::kAcquire), deaf);
    const absl::Duration poll = machine().next_send() - now();
    EXPECT_GE(poll, absl::Milliseconds(50));
    EXPECT_LE(poll, absl::Milliseconds(i == 0 ? 100 : 500));
    Pass(poll);
  }
  Hear(Fetch(Operation::kAcquire), Queued());
  EXPECT_GE(machine().next_send() - now(), absl::Seconds(1));
}

TEST_F(LockMachineClaimsTest, AttemptsAfterTheFirstAskWhetherMessagesArrive) {
  Acquire();
  const Send first = Fetch(Operation::kAcquire);
  EXPECT_FALSE(first.bid.listen);
  Hear(first, Queued());
  Pass(kThird);
  EXPECT_TRUE(Fetch(Operation::kAcquire).bid.listen);
}

class LockMachineToldTest : public LockMachineClaimsTest {
 protected:
  LockMachineToldTest() { Make({.sharing = kLatch}); }

  static Answer Telling(uint64_t counts, uint64_t last) {
    Answer answer = Queued();
    answer.bid.told = {.counts = counts, .last = last};
    return answer;
  }
};

TEST_F(LockMachineToldTest, WhoeverWaitsForALatchTellsBackTheMostThatItWasTold) {
  Acquire();
  const Send first = Fetch(Operation::kAcquire);
  EXPECT_EQ(first.bid.told.counts, 0U);
  Hear(first, Telling(2, 20));
  Pass(kThird);
  const Send second = Fetch(Operation::kAcquire);
  EXPECT_EQ(second.bid.told.counts, 2U);
  EXPECT_EQ(second.bid.told.last, 20U);
  machine().OnTold({.counts = 3, .last = 30});
  Hear(second, Telling(1, 10));  // another server, which has received fewer
  Pass(kThird);
  const Send third = Fetch(Operation::kAcquire);
  EXPECT_EQ(third.bid.told.counts, 3U);
  EXPECT_EQ(third.bid.told.last, 30U);
}

TEST_F(LockMachineToldTest, ALaterWaitKnowsWhatAnEarlierOneWasTold) {
  Waiter& waiter = Acquire();
  Hear(Fetch(Operation::kAcquire), Telling(2, 20));
  GiveUp(waiter, State::kStopped);
  Hear(Fetch(Operation::kCancel), Cancelled());
  Acquire();
  EXPECT_EQ(Fetch(Operation::kAcquire).bid.told.counts, 2U);
}

// The server is stopped, and executes the request when it goes on, however much later.
TEST_F(LockMachineClaimsTest, AnAbandonedRequestToASilentServerIsTakenBackHoweverLate) {
  Waiter& waiter = Acquire();
  Hear(Fetch(Operation::kAcquire), Silence());
  GiveUp(waiter, State::kStopped);
  const base::Instant late = now() + absl::Minutes(2);
  int tries = 0;
  while (now() < late) {
    PassTo(machine().next_send());
    Hear(Fetch(Operation::kCancel), Silence());
    ASSERT_LT(++tries, 1000);
  }
  PassTo(machine().next_send());
  const Send cancel = Fetch(Operation::kCancel);
  EXPECT_TRUE(cancel.tombstone);
  Hear(cancel, Cancelled());
  EXPECT_TRUE(machine().idle());
}

}  // namespace
}  // namespace redlatch::engine
