// Hand-overs by message: claims, their confirmation, looks, and messages that do not arrive.

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
    Hear(Fetch<ToRelease>(), With(ReleasedThen(), kLook));
    machine().Outcome(holder.hold);
  }
};

TEST_F(LockMachineClaimsTest, AHandOverIsForItsClaimUntilItIsConfirmed) {
  const base::Instant asked = now();
  Waiter& waiter = Claimed();
  EXPECT_EQ(machine().Deadline(waiter.hold), asked + kClaimValid);
  EXPECT_EQ(machine().next_send(), now() + kConfirmAfter);
  Pass(kConfirmAfter);
  const Send confirmation = Fetch<ToRenew>();
  EXPECT_EQ(confirmation.lease, kLease);
  Pass(absl::Milliseconds(1));
  Hear(confirmation, Held());
  EXPECT_EQ(machine().Deadline(waiter.hold), confirmation.sent + kValid);
  EXPECT_EQ(machine().next_send(), confirmation.sent + kThird);
  EXPECT_TRUE(Notices().empty()) << "it is part of the acquisition";
}

TEST_F(LockMachineClaimsTest, AConfirmationThatIsNotAnsweredIsRepeatedAndTheClaimIsLostAtItsEnd) {
  const base::Instant asked = now();
  Waiter& waiter = Claimed();
  Pass(kConfirmAfter);
  Hear(Fetch<ToRenew>(), Silence());
  EXPECT_LT(machine().next_send(), now() + absl::Milliseconds(20));
  EXPECT_TRUE(Valid(waiter));
  PassTo(asked + kClaimValid - kLead);
  Expire();
  EXPECT_FALSE(Valid(waiter));
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_THAT(effects().losses[0].reason, ::testing::HasSubstr("was not confirmed in time"));
}

TEST_F(LockMachineClaimsTest, AHeartbeatThatCrossesTheGrantConfirmsItAsWell) {
  Waiter& waiter = Queue();
  Pass(kThird);
  const Send heartbeat = Fetch<ToAcquire>();
  HearGrant(Claim(2));
  ASSERT_EQ(waiter.state, State::kGranted);
  Hear(heartbeat, Granted());
  EXPECT_EQ(machine().next_send(), heartbeat.sent + kThird) << "nothing is left to confirm";
  EXPECT_EQ(machine().Deadline(waiter.hold), heartbeat.sent + kValid);
}

TEST_F(LockMachineClaimsTest, AClaimOfWhichLittleIsLeftIsConfirmedBeforeAThreadGetsIt) {
  Waiter& waiter = Queue();
  Pass(kClaimValid - kClaim / 4 + absl::Milliseconds(1));
  HearGrant(Claim());
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_TRUE(Woken(waiter)) << "its thread is to ask";
  const Send ask = Fetch<ToAcquire>();  // at once
  Pass(absl::Milliseconds(3));
  Hear(ask, Granted(0, kLease, kToken + 7));
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(waiter.token.value(), kToken + 7) << "of the present grant, which may be a later one";
  EXPECT_EQ(machine().Deadline(waiter.hold), ask.sent + kValid);
}

TEST_F(LockMachineClaimsTest, MessageWithALongClaimIsAClaimForTheLease) {
  const base::Instant asked = now();
  Waiter& waiter = Queue();
  NewGrant news = Claim();
  news.claim = absl::InfiniteDuration();
  HearGrant(news);
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(machine().Deadline(waiter.hold), asked + kValid);
  EXPECT_EQ(machine().next_send(), now() + absl::Milliseconds(100)) << "it is confirmed soon";
}

TEST_F(LockMachineClaimsTest, WholeLeaseIsAlwaysConfirmed) {
  for (const bool manual : {false, true}) {
    Make({});
    Waiter& waiter = Queue({.manual = manual, .whole = !manual});
    NewGrant news = Claim();
    news.grant = machine().grant_id();
    news.claim = absl::Hours(24);
    HearGrant(news);
    EXPECT_EQ(waiter.state, State::kWaiting);
    Fetch<ToAcquire>();
  }
}

TEST_F(LockMachineClaimsTest, MessageWithAnOddTokenOrAttemptMakesItAsk) {
  Waiter& before = Hold();
  EXPECT_EQ(before.token.value(), kToken);
  Release(before.hold);
  Hear(Fetch<ToRelease>(), ReleasedThen());
  machine().Forget(before.hold);
  for (const auto& [attempt, token] : {std::pair<uint32_t, uint64_t>{1, 0},
                                       {1, kToken - 1},
                                       {0, kToken + 1},
                                       {2, kToken + 1},
                                       {UINT32_MAX, kToken + 1}}) {
    Waiter& waiter = Queue();
    HearGrant({.grant = machine().grant_id(), .attempt = attempt, .token = token, .claim = kClaim});
    EXPECT_EQ(waiter.state, State::kWaiting) << attempt << " " << token;
    Hear(Fetch<ToAcquire>(), Queued());
    GiveUp(waiter);
    Hear(Fetch<ToCancel>(), Cancelled());
  }
}

// Others may have read the id in a message, and can then forge a grant.
TEST_F(LockMachineClaimsTest, GrantIsConfirmedIfItsIdWasInAMessage) {
  const auto told = [&](const std::function<void(Effects&)>& event) {
    Make({});
    Waiter& waiter = Queue({.keep = absl::Seconds(1)});
    Effects effects;
    event(effects);
    HearGrant({.grant = machine().grant_id(), .attempt = 1, .token = kToken, .claim = kClaim});
    EXPECT_EQ(waiter.state, State::kWaiting);
    Hear(Fetch<ToAcquire>(), Queued());
    EXPECT_EQ(waiter.state, State::kWaiting);
  };
  told([&](Effects& effects) { machine().OnLook(machine().grant_id(), effects); });
  told([&](Effects&) { machine().OnForced(machine().grant_id(), now()); });
  told([&](Effects&) { machine().OnWanted(machine().grant_id(), now()); });
  told([&](Effects&) { machine().OnReconnected(now()); });
  told([&](Effects&) {  // a grant that was too late
    HearGrant({.grant = machine().grant_id(), .attempt = 1, .token = kToken});
    Hear(Fetch<ToAcquire>(), Queued());
  });
  told([&](Effects&) {  // one that was not heard
    Pass(kThird);
    Hear(Fetch<ToAcquire>(), Missed(Queued()));
  });
}

TEST_F(LockMachineClaimsTest, AManualHoldGetsItsWholeLeaseBeforeAThreadGetsIt) {
  Waiter& waiter = Queue({.manual = true});
  HearGrant(Claim());
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Send ask = Fetch<ToAcquire>();
  EXPECT_FALSE(BidOf(ask).terms.manual) << "a repeat of a manual one would not extend it";
  Hear(ask, Granted());
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(machine().Deadline(waiter.hold), ask.sent + kValid);
  EXPECT_TRUE(machine().next_send().is_infinite()) << "from here on it is manual";
}

TEST_F(LockMachineClaimsTest, WhatIsLeftOfAManualClaimIsNotTakenForItsLease) {
  Waiter& waiter = Queue({.manual = true});
  Pass(kThird);
  Hear(Fetch<ToAcquire>(), Granted(0, kClaim));  // the message is lost
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_FALSE(BidOf(Fetch<ToAcquire>()).terms.manual);
}

TEST_F(LockMachineClaimsTest, WhoeverHandedOverLooksWhetherTheLockWasTaken) {
  HandOver();
  EXPECT_FALSE(machine().idle());
  EXPECT_TRUE(machine().vacant());
  EXPECT_EQ(machine().next_send(), now() + kLook + absl::Milliseconds(5));
  PassTo(machine().next_send());
  const Send look = Fetch<ToCancel>();
  EXPECT_FALSE(look.leaves_tombstone());
  EXPECT_NE(look.grant, kFirst) << "a grant that no client has";
  Hear(look, With(Cancelled(), kLook));  // it had to be handed on
  PassTo(machine().next_send());
  Hear(Fetch<ToCancel>(), Cancelled());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineClaimsTest, ALookThatIsNotAnsweredIsRepeatedAFewTimes) {
  HandOver();
  int looks = 0;
  for (; !machine().idle() && looks < 100; ++looks) {
    PassTo(machine().next_send());
    Hear(Fetch<ToCancel>(), Silence());
  }
  EXPECT_EQ(looks, 4);
}

TEST_F(LockMachineClaimsTest, WhoeverDropsAWindowOfDeadWaitersGoesOnAtOnce) {
  Waiter& holder = Hold();
  Release(holder.hold);
  Hear(Fetch<ToRelease>(), With(ReleasedThen(), absl::Milliseconds(1)));
  Hear(Fetch<ToCancel>(), With(Cancelled(), absl::Milliseconds(1)));
  Hear(Fetch<ToCancel>(), Cancelled());
  EXPECT_TRUE(Quiet());

  Acquire({.patience = Patience::kNone});
  Hear(Fetch<ToAcquire>(), With(Busy(), absl::Milliseconds(1)));
  Fetch<ToCancel>();
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
  Hear(Fetch<ToRelease>(), ToGoOn(ReleasedThen(), kLook));
  machine().Outcome(holder.hold);
  const base::Instant due = now() + kLook + absl::Milliseconds(5);
  for (int i = 0; i < 3; ++i) {
    Pass(absl::Milliseconds(1));
    Hear(Fetch<ToCancel>(), i < 2 ? ToGoOn(Cancelled()) : Cancelled());
  }
  EXPECT_EQ(machine().next_send(), due);
  PassTo(due);
  Hear(Fetch<ToCancel>(), Cancelled());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachinePermitClaimsTest, AWaiterThatGoesOnByItsHeartbeatLooksAfterTheOthersToo) {
  Acquire();
  Hear(Fetch<ToAcquire>(), ToGoOn(Queued(), absl::Milliseconds(500)));
  const base::Instant due = now() + absl::Milliseconds(505);
  Hear(Fetch<ToAcquire>(), Queued());
  EXPECT_EQ(machine().next_send(), due);
  PassTo(due);
  Fetch<ToCancel>();
}

TEST_F(LockMachineClaimsTest, AMessageThatComesLaterThanTheReplyWasNotMissed) {
  Waiter& waiter = Queue();
  Pass(kThird);
  Hear(Fetch<ToAcquire>(), Missed(Granted()));
  HearGrant(Claim());
  Release(waiter.hold);
  Acquire();
  EXPECT_FALSE(Fetch<ToRelease>().missed_since.has_value());
}

TEST_F(LockMachineClaimsTest, WhoeverMissedOneComesLastUntilAMessageReachesIt) {
  Queue();
  Pass(kThird);
  Hear(Fetch<ToAcquire>(), Missed(Queued()));
  Pass(kThird);
  const Send again = Fetch<ToAcquire>();
  EXPECT_TRUE(again.missed_since.has_value());
  EXPECT_EQ(BidOf(again).ticket, 0U) << "the place that the server still knows, else the last";
  Hear(again, Queued());
  HearGrant(Claim(BidOf(again).attempt));
  Waiter& next = Acquire({.thread = 2});
  Release(1);
  EXPECT_EQ(next.state, State::kWaiting);
}

TEST_F(LockMachineClaimsTest, ALookReachesItTooAndItAsksAtOnceAtItsPlace) {
  Waiter& waiter = Queue();
  Pass(kThird);
  Hear(Fetch<ToAcquire>(), Missed(Queued()));
  Bidder::Park(waiter);
  Effects effects;
  machine().OnLook(kFirst, effects);
  ASSERT_EQ(effects.wakes.size(), 1U);
  EXPECT_EQ(effects.wakes[0], &waiter);
  machine().Poked(waiter, now(), effects);
  const Send next = Fetch<ToAcquire>();
  EXPECT_FALSE(next.missed_since.has_value());
  EXPECT_EQ(BidOf(next).ticket, 77U);
}

TEST_F(LockMachineClaimsTest, OneWhoseChannelHasNoSubscriberAtTheServerPolls) {
  Acquire();
  Answer deaf = Queued();
  deaf.deaf = true;
  for (int i = 0; i < 10; ++i) {
    Hear(Fetch<ToAcquire>(), deaf);
    const absl::Duration poll = machine().next_send() - now();
    EXPECT_GE(poll, absl::Milliseconds(50));
    EXPECT_LE(poll, absl::Milliseconds(i == 0 ? 100 : 500));
    Pass(poll);
  }
  Hear(Fetch<ToAcquire>(), Queued());
  EXPECT_GE(machine().next_send() - now(), absl::Seconds(1));
}

TEST_F(LockMachineClaimsTest, AttemptsAfterTheFirstAskWhetherMessagesArrive) {
  Acquire();
  const Send first = Fetch<ToAcquire>();
  EXPECT_FALSE(BidOf(first).listen);
  Hear(first, Queued());
  Pass(kThird);
  EXPECT_TRUE(BidOf(Fetch<ToAcquire>()).listen);
}

// The server is stopped, and executes the request when it goes on, however much later.
TEST_F(LockMachineClaimsTest, AnAbandonedRequestToASilentServerIsTakenBackHoweverLate) {
  Waiter& waiter = Acquire();
  Hear(Fetch<ToAcquire>(), Silence());
  GiveUp(waiter, State::kStopped);
  const base::Instant late = now() + absl::Minutes(2);
  int tries = 0;
  while (now() < late) {
    PassTo(machine().next_send());
    Hear(Fetch<ToCancel>(), Silence());
    ASSERT_LT(++tries, 1000);
  }
  PassTo(machine().next_send());
  const Send cancel = Fetch<ToCancel>();
  EXPECT_TRUE(cancel.leaves_tombstone());
  Hear(cancel, Cancelled());
  EXPECT_TRUE(machine().idle());
}

}  // namespace
}  // namespace redlatch::engine
