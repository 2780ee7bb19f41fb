// A hold: renewed, at risk, recovered, extended, lost.
#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

using LockMachineHoldTest = LockMachineTest;

TEST_F(LockMachineHoldTest, RenewalMovesTheDeadlineFromItsSending) {
  Waiter& waiter = Hold();
  const base::Instant granted = now();
  EXPECT_EQ(machine().next_send(), granted + kThird);
  Pass(kThird - absl::Nanoseconds(1));
  EXPECT_TRUE(Quiet());
  Pass(absl::Nanoseconds(1));
  const Send renewal = Fetch<ToRenew>();
  EXPECT_EQ(renewal.lease, kLease);
  EXPECT_TRUE(Quiet());
  EXPECT_TRUE(machine().next_send().is_infinite());
  Pass(absl::Milliseconds(300));
  Hear(renewal, Held());
  EXPECT_THAT(Notices(), ElementsAre(Notice::Kind::kRenewed));
  EXPECT_EQ(machine().Deadline(waiter.hold), renewal.sent + kValid);
  EXPECT_EQ(machine().next_expiry(), renewal.sent + kValid - kLead);
  EXPECT_EQ(machine().next_send(), renewal.sent + kThird);
}

TEST_F(LockMachineHoldTest, AtRiskAndRecoveredAreToldOnceEach) {
  Waiter& waiter = Hold();
  Pass(kThird);
  Hear(Fetch<ToRenew>(), Silence());
  ASSERT_THAT(Notices(), ElementsAre(Notice::Kind::kAtRisk));
  EXPECT_EQ(effects().notices[0].token, waiter.token);
  EXPECT_EQ(effects().notices[0].remaining, kValid - kThird);
  EXPECT_TRUE(absl::IsUnavailable(effects().notices[0].why));
  for (int i = 0; i < 3; ++i) {
    PassTo(machine().next_send());
    Hear(Fetch<ToRenew>(), Silence());
    EXPECT_THAT(Notices(), IsEmpty());
  }
  PassTo(machine().next_send());
  Hear(Fetch<ToRenew>(), Held());
  EXPECT_THAT(Notices(), ElementsAre(Notice::Kind::kRenewed, Notice::Kind::kRecovered));
  PassTo(machine().next_send());
  Hear(Fetch<ToRenew>(), Held());
  EXPECT_THAT(Notices(), ElementsAre(Notice::Kind::kRenewed));
}

TEST_F(LockMachineHoldTest, LostAtTheDeadlineWhileIoHangs) {
  Waiter& waiter = Hold();
  const std::stop_token lost = waiter.view->Lost(now());
  Pass(kThird);
  const Send hanging = Fetch<ToRenew>();
  PassTo(machine().next_expiry() - absl::Nanoseconds(1));
  Expire();
  EXPECT_TRUE(Valid(waiter));
  EXPECT_THAT(effects().losses, IsEmpty());
  Pass(absl::Nanoseconds(1));
  Expire();
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_EQ(effects().losses[0].hold.id, waiter.hold);
  EXPECT_EQ(effects().losses[0].hold.token, waiter.token);
  EXPECT_FALSE(lost.stop_requested()) << "the notifier fires it";
  EXPECT_TRUE(waiter.view->Lost(now()).stop_requested()) << "for those who ask late";
  effects().losses[0].hold.view->Fire();
  EXPECT_TRUE(lost.stop_requested());
  EXPECT_EQ(machine().Deadline(waiter.hold), base::Instant());
  Hear(hanging, Held());
  EXPECT_FALSE(Valid(waiter));
  PassTo(machine().next_send());
  Hear(Fetch<ToRelease>(), NotHeld());
  EXPECT_TRUE(machine().idle());
}

// Two holders were seen in the soak: the release of a hold that was about to end let the next one
// in while this one's thread was still to be told.
TEST_F(LockMachineHoldTest, NobodyIsLetInBeforeTheDeadlineOfALostHold) {
  for (const bool reentrant : {false, true}) {
    Make({.reentrant = reentrant});
    Waiter& waiter = Hold();
    const base::Instant deadline = machine().Deadline(waiter.hold);
    PassTo(machine().next_expiry());
    ASSERT_LT(now(), deadline);
    Expire();
    ASSERT_EQ(effects().losses.size(), 1U);
    EXPECT_EQ(machine().next_send(), deadline);
    // The server would let another thread of this client into a reentrant lock at once.
    Acquire({.thread = 2, .patience = Patience::kNone});
    EXPECT_TRUE(Quiet());
    machine().OnReconnected(now());
    EXPECT_TRUE(Quiet());
    EXPECT_EQ(machine().next_send(), deadline);
    PassTo(deadline);
    EXPECT_NE(Fetch<ToRelease>().bid(), nullptr);
  }
}

TEST_F(LockMachineHoldTest, InvalidFromTheDeadlineThoughNobodyNotices) {
  Waiter& waiter = Hold();
  Pass(kValid - absl::Nanoseconds(1));
  EXPECT_TRUE(Valid(waiter));
  Pass(absl::Nanoseconds(1));
  EXPECT_FALSE(Valid(waiter));
}

TEST_F(LockMachineHoldTest, ReasonOfALossNamesTheLastFailure) {
  Hold();
  Pass(kThird);
  Hear(Fetch<ToRenew>(), Silence());
  PassTo(machine().next_expiry());
  Expire();
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_THAT(effects().losses[0].reason, HasSubstr("no answer"));
}

TEST_F(LockMachineHoldTest, HoldThatIsGoneIsLostAtOnce) {
  Waiter& waiter = Hold();
  Pass(kThird);
  Hear(Fetch<ToRenew>(), NotHeld());
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_THAT(effects().losses[0].reason, Not(HasSubstr("forced")));
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kLost);
  Hear(Fetch<ToRelease>(), NotHeld());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineHoldTest, OverwrittenKeyIsALoss) {
  Hold();
  Pass(kThird);
  Hear(Fetch<ToRenew>(), Refusal(absl::FailedPreconditionError("WRONGTYPE")));
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_THAT(effects().losses[0].reason, HasSubstr("WRONGTYPE"));
}

TEST_F(LockMachineHoldTest, BidUnderWayMayHaveTakenALostHoldAnew) {
  Queue();
  Pass(kThird);
  const Send heartbeat = Fetch<ToAcquire>();
  HearGrant({.grant = kFirst, .attempt = 1, .token = kToken, .claim = kLease});
  machine().OnForced(kFirst, now());
  const Send renewal = Fetch<ToRenew>();
  Hear(heartbeat, Granted());  // executed after the renewal, heard before
  Hear(renewal, NotHeld());
  EXPECT_EQ(effects().losses.size(), 1U);
  EXPECT_EQ(Fetch<ToRelease>().grant, kFirst);
}

TEST_F(LockMachineHoldTest, UnlockAfterALossReleasesNothing) {
  Make({.reentrant = true});
  Waiter& waiter = Hold({.face = Face::kStd});
  Acquire({.face = Face::kStd});
  PassTo(machine().next_expiry());
  Expire();
  EXPECT_EQ(machine().OfThread(1).hold, waiter.hold);
  EXPECT_EQ(machine().OfThread(1).depth, 0U);
  PassTo(machine().next_send());
  Hear(Fetch<ToRelease>(), NotHeld());
  for (int level = 0; level < 2; ++level) {
    const Released released = Unlock(1);
    EXPECT_EQ(released.kind, Kind::kLost);
    EXPECT_EQ(released.token, waiter.token);
  }
  EXPECT_EQ(Unlock(1).kind, Kind::kNotHeld);
  EXPECT_EQ(machine().OfThread(1).hold, 0U);
}

TEST_F(LockMachineHoldTest, ManualLeaseIsNeverRenewed) {
  Waiter& waiter = Hold({.manual = true});
  EXPECT_TRUE(machine().next_send().is_infinite());
  PassTo(machine().next_expiry() - absl::Nanoseconds(1));
  EXPECT_TRUE(Quiet());
  EXPECT_TRUE(Valid(waiter));
  Pass(absl::Nanoseconds(1));
  Expire();
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_EQ(effects().losses[0].reason, "its lease expired");
}

TEST_F(LockMachineHoldTest, ExtendMovesAManualDeadline) {
  Waiter& waiter = Hold({.manual = true});
  Pass(kThird);
  const std::optional<Send> extend = machine().Extend(waiter.hold, 2 * kLease, now());
  ASSERT_TRUE(extend.has_value());
  EXPECT_TRUE(std::holds_alternative<ToRenew>(extend->what));
  EXPECT_TRUE(machine().Wants(*extend));
  Hear(*extend, Held());
  EXPECT_EQ(machine().Deadline(waiter.hold), extend->sent + absl::Milliseconds(5938));
  EXPECT_THAT(Notices(), IsEmpty());
  EXPECT_TRUE(machine().next_send().is_infinite());
}

TEST_F(LockMachineHoldTest, ForcedIsLookedAtAtOnce) {
  Waiter& waiter = Hold();
  machine().OnForced(99, now());
  EXPECT_TRUE(Quiet());
  machine().OnForced(kFirst, now());
  EXPECT_TRUE(Valid(waiter)) << "the answer tells";
  Hear(Fetch<ToRenew>(), NotHeld());
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_THAT(effects().losses[0].reason, HasSubstr("forced"));
}

// The message may come sooner than the grant's own answer.
TEST_F(LockMachineHoldTest, ForcedBeforeItIsKnownToBeGrantedIsLookedAtWhenItIs) {
  Waiter& waiter = Acquire();
  const Send bid = Fetch<ToAcquire>();
  machine().OnForced(bid.grant, now());
  EXPECT_TRUE(Quiet());
  Hear(bid, Granted());
  EXPECT_TRUE(Valid(waiter));
  Hear(Fetch<ToRenew>(), NotHeld());
  ASSERT_EQ(effects().losses.size(), 1U);
  EXPECT_THAT(effects().losses[0].reason, HasSubstr("forced"));
}

TEST_F(LockMachineHoldTest, ForcedWhileARenewalIsUnderWayIsLookedAtAfterIt) {
  Hold();
  Pass(kThird);
  const Send renewal = Fetch<ToRenew>();
  machine().OnForced(kFirst, now());
  EXPECT_TRUE(Quiet());
  Hear(renewal, Held());  // it was executed before
  Hear(Fetch<ToRenew>(), NotHeld());
  EXPECT_EQ(effects().losses.size(), 1U);
}

TEST_F(LockMachineHoldTest, LookAtAManualHoldDoesNotExtendIt) {
  Waiter& waiter = Hold({.manual = true});
  const base::Instant deadline = machine().Deadline(waiter.hold);
  Pass(kThird);
  machine().OnForced(kFirst, now());
  const Send look = Fetch<ToRenew>();
  EXPECT_EQ(look.lease, absl::Milliseconds(1));
  Hear(look, Held());
  EXPECT_EQ(machine().Deadline(waiter.hold), deadline);
  EXPECT_THAT(Notices(), IsEmpty());
  EXPECT_TRUE(machine().next_send().is_infinite());
}

TEST_F(LockMachineHoldTest, ReconnectedHoldIsRenewedAtOnce) {
  Hold();
  machine().OnReconnected(now());
  Hear(Fetch<ToRenew>(), Held());
  EXPECT_EQ(machine().next_send(), now() + kThird);
}

TEST_F(LockMachineHoldTest, RenewalIsNotAnnouncedBeyondTheDeadline) {
  Hold();
  PassTo(machine().next_expiry() - absl::Nanoseconds(1));
  Hear(Fetch<ToRenew>(), Silence());
  EXPECT_TRUE(machine().next_send().is_infinite());
  PassTo(machine().next_expiry());
  EXPECT_TRUE(Quiet());
}

}  // namespace
}  // namespace redlatch::engine
