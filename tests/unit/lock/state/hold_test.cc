// A hold: renewed, at risk, recovered, extended, lost.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using LockStateHoldTest = LockStateTest;

TEST_F(LockStateHoldTest, RenewalExtendsDeadlineFromSendTime) {
  Make({.tells_token = true});
  Waiter& waiter = Hold();
  const base::Instant granted = now();
  EXPECT_EQ(state().next_request_at(), granted + kThird);
  Pass(kThird - absl::Nanoseconds(1));
  EXPECT_TRUE(Quiet());
  Pass(absl::Nanoseconds(1));
  const Request renewal = Fetch<RenewRequest>();
  EXPECT_EQ(renewal.lease, kLease);
  EXPECT_TRUE(Quiet());
  EXPECT_TRUE(state().next_request_at().is_infinite());
  Pass(absl::Milliseconds(300));
  Deliver(renewal, HoldRef());
  EXPECT_THAT(Notices(), ElementsAre(Notice::Kind::kRenewed));
  EXPECT_EQ(state().Deadline(waiter.hold), renewal.sent + kValid);
  EXPECT_EQ(state().next_expiry(), renewal.sent + kValid - kLead);
  EXPECT_EQ(state().next_request_at(), renewal.sent + kThird);
}

TEST_F(LockStateHoldTest, ReportsAtRiskAndRecoveredOnceEach) {
  Waiter& waiter = Hold();
  Deliver(FetchDue<RenewRequest>(), Silence());
  ASSERT_THAT(Notices(), ElementsAre(Notice::Kind::kAtRisk));
  EXPECT_EQ(effects().notices[0].token, waiter.token);
  EXPECT_EQ(effects().notices[0].remaining, kValid - kThird);
  EXPECT_TRUE(absl::IsUnavailable(effects().notices[0].why));
  for (int i = 0; i < 3; ++i) {
    Deliver(FetchDue<RenewRequest>(), Silence());
    EXPECT_THAT(Notices(), IsEmpty());
  }
  Deliver(FetchDue<RenewRequest>(), HoldRef());
  EXPECT_THAT(Notices(), ElementsAre(Notice::Kind::kRecovered));
  Deliver(FetchDue<RenewRequest>(), HoldRef());
  EXPECT_THAT(Notices(), IsEmpty());
}

TEST_F(LockStateHoldTest, IsLostAtDeadlineWhileIoHangs) {
  Waiter& waiter = Hold();
  const std::stop_token lost = waiter.view->Lost(now());
  const Request hanging = FetchDue<RenewRequest>();
  PassTo(state().next_expiry() - absl::Nanoseconds(1));
  Expire();
  EXPECT_TRUE(Valid(waiter));
  EXPECT_THAT(effects().lost, IsEmpty());
  Pass(absl::Nanoseconds(1));
  Expire();
  ASSERT_EQ(effects().lost.size(), 1U);
  EXPECT_EQ(effects().lost[0].id, waiter.hold);
  EXPECT_EQ(effects().lost[0].token, waiter.token);
  EXPECT_FALSE(lost.stop_requested()) << "the notifier fires it";
  EXPECT_TRUE(waiter.view->Lost(now()).stop_requested()) << "for waiters that ask late";
  effects().lost[0].view->Fire();
  EXPECT_TRUE(lost.stop_requested());
  EXPECT_EQ(state().Deadline(waiter.hold), base::Instant());
  Deliver(hanging, HoldRef());
  EXPECT_FALSE(Valid(waiter));
  Deliver(FetchDue<ReleaseRequest>(), NotHeld());
  EXPECT_TRUE(state().idle());
}

// The release of a hold that is about to end must not let in the next thread before this one has
// been told.
TEST_F(LockStateHoldTest, NoThreadEntersBeforeDeadlineOfLostHold) {
  for (const bool reentrant : {false, true}) {
    Make({.reentrant = reentrant});
    Waiter& waiter = Hold();
    const base::Instant deadline = state().Deadline(waiter.hold);
    PassTo(state().next_expiry());
    ASSERT_LT(now(), deadline);
    Expire();
    ASSERT_EQ(effects().lost.size(), 1U);
    EXPECT_EQ(state().next_request_at(), deadline);
    // The server would let another thread of this client into a reentrant lock at once.
    Acquire({.thread = 2, .wait_limit = WaitLimit::kNone});
    EXPECT_TRUE(Quiet());
    state().OnReconnected(now());
    EXPECT_TRUE(Quiet());
    EXPECT_EQ(state().next_request_at(), deadline);
    PassTo(deadline);
    EXPECT_NE(Fetch<ReleaseRequest>().acquire(), nullptr);
  }
}

TEST_F(LockStateHoldTest, IsInvalidFromDeadlineWithoutAnyEvent) {
  Waiter& waiter = Hold();
  Pass(kValid - absl::Nanoseconds(1));
  EXPECT_TRUE(Valid(waiter));
  Pass(absl::Nanoseconds(1));
  EXPECT_FALSE(Valid(waiter));
}

TEST_F(LockStateHoldTest, IsLostAtOnceIfServerHasNoGrant) {
  Waiter& waiter = Hold();
  Deliver(FetchDue<RenewRequest>(), NotHeld());
  EXPECT_THAT(LostBecause(), Not(HasSubstr("forced")));
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kLost);
  Deliver(Fetch<ReleaseRequest>(), NotHeld());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateHoldTest, IsLostIfKeyIsOverwritten) {
  Hold();
  Deliver(FetchDue<RenewRequest>(), Refusal(absl::FailedPreconditionError("WRONGTYPE")));
  EXPECT_THAT(LostBecause(), HasSubstr("WRONGTYPE"));
}

TEST_F(LockStateHoldTest, AcquireInFlightMayRestoreLostGrant) {
  Queue();
  const Request heartbeat = FetchDue<AcquireRequest>();
  DeliverGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = kLease});
  state().OnForced(kFirst, now());
  const Request renewal = Fetch<RenewRequest>();
  Deliver(heartbeat, Granted());  // executed after the renewal, but received before it
  Deliver(renewal, NotHeld());
  EXPECT_EQ(effects().lost.size(), 1U);
  EXPECT_EQ(Fetch<ReleaseRequest>().grant, kFirst);
}

TEST_F(LockStateHoldTest, UnlockAfterLossReleasesNothing) {
  Make({.reentrant = true});
  Waiter& waiter = Hold({.face = Face::kStd});
  Acquire({.face = Face::kStd});
  PassToExpiry();
  EXPECT_EQ(state().OfThread(1).hold, waiter.hold);
  EXPECT_EQ(state().OfThread(1).depth, 0U);
  Deliver(FetchDue<ReleaseRequest>(), NotHeld());
  for (int level = 0; level < 2; ++level) {
    const Released released = Unlock(1);
    EXPECT_EQ(released.kind, Kind::kLost);
    EXPECT_EQ(released.token, waiter.token);
  }
  EXPECT_EQ(Unlock(1).kind, Kind::kNotHeld);
  EXPECT_EQ(state().OfThread(1).hold, 0U);
}

TEST_F(LockStateHoldTest, ManualLeaseIsNeverRenewed) {
  Waiter& waiter = Hold({.manual = true});
  EXPECT_TRUE(state().next_request_at().is_infinite());
  PassTo(state().next_expiry() - absl::Nanoseconds(1));
  EXPECT_TRUE(Quiet());
  EXPECT_TRUE(Valid(waiter));
  Pass(absl::Nanoseconds(1));
  Expire();
  EXPECT_EQ(LostBecause(), "its lease expired");
}

TEST_F(LockStateHoldTest, UnansweredExtensionIsNotRepeated) {
  Waiter& waiter = Hold({.manual = true});
  const std::optional<Request> extend = state().Extend(waiter.hold, 2 * kLease, now());
  ASSERT_TRUE(extend.has_value());
  Deliver(*extend, Silence());
  EXPECT_EQ(state().Deadline(waiter.hold), now() + kValid);
  EXPECT_TRUE(state().next_request_at().is_infinite()) << "its caller is told";
}

TEST_F(LockStateHoldTest, ForcedReleaseIsCheckedAtOnce) {
  Waiter& waiter = Hold();
  state().OnForced(99, now());
  EXPECT_TRUE(Quiet());
  state().OnForced(kFirst, now());
  EXPECT_TRUE(Valid(waiter)) << "the result will tell";
  Deliver(Fetch<RenewRequest>(), NotHeld());
  EXPECT_THAT(LostBecause(), HasSubstr("forced"));
}

// The message may come before the reply to the acquire.
TEST_F(LockStateHoldTest, ForcedReleaseBeforeGrantIsCheckedAtGrant) {
  const auto [waiter, acquire] = Asked();
  state().OnForced(acquire.grant, now());
  EXPECT_TRUE(Quiet());
  Deliver(acquire, Granted());
  EXPECT_TRUE(Valid(waiter));
  Deliver(Fetch<RenewRequest>(), NotHeld());
  EXPECT_EQ(effects().lost.size(), 1U);
}

TEST_F(LockStateHoldTest, ForcedReleaseIsCheckedAfterRenewal) {
  Hold();
  const Request renewal = FetchDue<RenewRequest>();
  state().OnForced(kFirst, now());
  EXPECT_TRUE(Quiet());
  Deliver(renewal, HoldRef());  // it was executed before
  Deliver(Fetch<RenewRequest>(), NotHeld());
  EXPECT_EQ(effects().lost.size(), 1U);
}

TEST_F(LockStateHoldTest, CheckOfManualHoldDoesNotExtendIt) {
  Waiter& waiter = Hold({.manual = true});
  const base::Instant deadline = state().Deadline(waiter.hold);
  Pass(kThird);
  state().OnForced(kFirst, now());
  const Request check_after = Fetch<RenewRequest>();
  EXPECT_EQ(check_after.lease, absl::Milliseconds(1));
  Deliver(check_after, HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), deadline);
  EXPECT_THAT(Notices(), IsEmpty());
  EXPECT_TRUE(state().next_request_at().is_infinite());
}

TEST_F(LockStateHoldTest, IsRenewedAtOnceAfterReconnect) {
  Hold();
  state().OnReconnected(now());
  Deliver(Fetch<RenewRequest>(), HoldRef());
  EXPECT_EQ(state().next_request_at(), now() + kThird);
}

TEST_F(LockStateHoldTest, NextRequestTimeIsNotAfterDeadline) {
  Hold();
  PassTo(state().next_expiry() - absl::Nanoseconds(1));
  Deliver(Fetch<RenewRequest>(), Silence());
  EXPECT_TRUE(state().next_request_at().is_infinite());
  PassTo(state().next_expiry());
  EXPECT_TRUE(Quiet());
}

}  // namespace
}  // namespace redlatch::internal
