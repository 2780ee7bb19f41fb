// Tests stop_margin, grace and at_most: how much sooner than the server a client considers its hold
// over, and how long the hold lasts at most.

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct LockStateMarginTest : LockStateTest {
  static constexpr absl::Duration kStop = absl::Milliseconds(900);
  static constexpr absl::Duration kGrace = absl::Seconds(5);
};

TEST_F(LockStateMarginTest, StopMarginEndsHoldSooner) {
  const base::Instant asked = now();
  const Waiter& waiter = Hold({.stop_margin = kStop});
  EXPECT_EQ(state().Deadline(waiter.hold), asked + (kValid - kStop));
  EXPECT_EQ(state().next_expiry(), asked + (kValid - kStop - kLead));
  EXPECT_EQ(state().next_request_at(), asked + (kLease - kStop) / 3) << "renewals have room";
  Deliver(FetchDue<RenewRequest>(), HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), now() + (kValid - kStop));
  FetchReleaseOf(waiter.hold);  // at once
}

// No other owner gets in before the end of the holder's margin.
TEST_F(LockStateMarginTest, LostGrantIsReleasedOnlyAfterMargin) {
  const base::Instant asked = now();
  const Waiter& waiter = Hold({.stop_margin = kStop});
  Waiter& other = Acquire({.thread = 2, .stop_margin = kStop});
  PassTo(asked + (kValid - kStop - kLead));
  Expire();
  EXPECT_FALSE(Valid(waiter));
  EXPECT_TRUE(Quiet()) << "neither a release nor the next acquire";
  EXPECT_EQ(state().next_request_at(), asked + kValid);
  PassTo(asked + kValid - absl::Milliseconds(1));
  EXPECT_TRUE(Quiet());
  state().OnReconnected(now());
  EXPECT_TRUE(Quiet());
  Pass(absl::Milliseconds(1));
  EXPECT_TRUE(As<ReleaseRequest>(Fetch<ReleaseRequest>()).next) << "the next acquire with it";
  EXPECT_EQ(other.state, State::kWaiting);
}

TEST_F(LockStateMarginTest, TryDuringMarginIsRefusedAtOnce) {
  const base::Instant asked = now();
  Hold({.stop_margin = kStop});
  PassTo(asked + (kValid - kStop - kLead));
  Expire();
  EXPECT_EQ(Acquire({.thread = 2, .wait_limit = WaitLimit::kNone}).state, State::kBusy);
  Waiter& waiter = Acquire({.thread = 3, .wait_limit = WaitLimit::kBounded});
  GiveUp(waiter);
  EXPECT_EQ(waiter.state, State::kBusy) << "and not unreachable";
}

TEST_F(LockStateMarginTest, GraceIsAskedForAndNotUsed) {
  const base::Instant asked = now();
  const auto [waiter, acquire] = Asked({.grace = kGrace});
  EXPECT_EQ(AcquireOf(acquire).terms.lease, kLease + kGrace);
  Deliver(acquire, Granted(0, kLease + kGrace));
  // The margin for clocks is computed from the lease and the grace.
  const absl::Duration valid = kValid - kGrace / 100;
  EXPECT_EQ(state().Deadline(waiter.hold), asked + valid);
  EXPECT_EQ(state().next_request_at(), asked + kThird);
  PassTo(asked + kThird);
  const Request renewal = Fetch<RenewRequest>();
  EXPECT_EQ(renewal.lease, kLease + kGrace);
  Deliver(renewal, HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), now() + valid);
}

TEST_F(LockStateMarginTest, ExtensionMovesManualDeadlineAndHasGrace) {
  for (const absl::Duration grace : {absl::ZeroDuration(), kGrace}) {
    Make({});
    const Waiter& waiter = Hold({.manual = true, .grace = grace});
    Pass(kThird);
    const std::optional<Request> extension = state().Extend(waiter.hold, absl::Seconds(10), now());
    ASSERT_TRUE(extension);
    EXPECT_TRUE(std::holds_alternative<RenewRequest>(extension->what));
    EXPECT_TRUE(state().IsWanted(*extension));
    EXPECT_EQ(extension->lease, absl::Seconds(10) + grace);
    Deliver(*extension, HoldRef());
    EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(now(), extension->lease, grace));
    EXPECT_THAT(Notices(), IsEmpty());
    EXPECT_TRUE(state().next_request_at().is_infinite());
  }
}

// A claim is longer by the margin, and the client uses the rest of it.
TEST_F(LockStateMarginTest, HandoverHasMargin) {
  const base::Instant asked = now();
  const Want want{.lease = absl::Seconds(20), .stop_margin = absl::Seconds(4), .grace = kGrace};
  const absl::Duration claim = absl::Seconds(11);
  Waiter& waiter = Queue(want);
  Pass(absl::Milliseconds(100));
  DeliverGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = claim});
  ASSERT_EQ(waiter.state, State::kGranted) << "nothing is asked first";
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(asked, claim, absl::Seconds(9)));
  Pass(absl::Milliseconds(100));
  const Request confirmation = Fetch<RenewRequest>();
  EXPECT_EQ(confirmation.lease, want.lease + kGrace);
  Deliver(confirmation, Silence());
  EXPECT_LT(state().next_request_at(), now() + absl::Milliseconds(20)) << "it is repeated";
}

TEST_F(LockStateMarginTest, LateHandoverIsConfirmedFirst) {
  const Want want{.lease = absl::Seconds(20), .stop_margin = absl::Seconds(9)};
  Waiter& waiter = Queue(want);
  Pass(absl::Milliseconds(1500));
  DeliverGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = absl::Seconds(11)});
  EXPECT_EQ(waiter.state, State::kWaiting) << "less than a quarter of 2 s is left";
  Deliver(Fetch<AcquireRequest>(), Granted(0, want.lease));
  EXPECT_EQ(waiter.state, State::kGranted);
}

// A margin may be much longer than what a claim leaves for use.
TEST_F(LockStateMarginTest, HandoverIsConfirmedWhileItLasts) {
  const Want want{.lease = absl::Milliseconds(300),
                  .stop_margin = absl::Milliseconds(150),
                  .grace = absl::Milliseconds(500)};
  Waiter& waiter = Queue(want);
  Pass(absl::Milliseconds(100));
  DeliverGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = absl::Milliseconds(800)});
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_LT(state().next_request_at(), state().next_expiry());
}

// A native acquire that comes after it was given up keeps the lock taken for its whole claim.
TEST_F(LockStateMarginTest, LengthensNoNativeClaim) {
  const Request acquire =
      Asked({.face = Face::kStd, .lease = absl::Seconds(20), .native = true, .stop_margin = kStop})
          .second;
  EXPECT_FALSE(IsNative(acquire.grant)) << "nothing would be left of its claim";
}

// A lock object with different margins does not share the grant.
TEST_F(LockStateMarginTest, GrantServesOnlyEqualMargins) {
  const auto [holder, other] = Contended(
      {.turn = absl::Seconds(1)}, {.thread = 2, .turn = absl::Seconds(1), .stop_margin = kStop});
  Release(holder->hold);
  EXPECT_EQ(other->state, State::kWaiting);
  Fetch<ReleaseRequest>();
}

struct LockStateAtMostTest : LockStateTest {
  static constexpr absl::Duration kAtMost = absl::Seconds(10);
  static constexpr absl::Duration kExact = absl::Milliseconds(1);

  // Renews the grant until nothing is left to renew. Returns the last renewal.
  Request RenewToTheEnd() {
    Request last;
    while (state().next_request_at() < state().next_expiry()) {
      last = FetchDue<RenewRequest>();
      Deliver(last, HoldRef());
    }
    return last;
  }
};

TEST_F(LockStateAtMostTest, HoldIsRenewedUntilItsEndAndLost) {
  const base::Instant ends = now() + kAtMost;
  const Waiter& waiter = Hold({.at_most = kAtMost});
  const Request last = RenewToTheEnd();
  EXPECT_LT(last.lease, kLease);
  EXPECT_LE(last.sent + last.lease, ends + DriftMargin(kLease) + kExact) << "the server frees it";
  EXPECT_LE(state().Deadline(waiter.hold), ends);
  EXPECT_GE(state().Deadline(waiter.hold), ends - kExact);
  PassToExpiry();
  EXPECT_THAT(LostBecause(), HasSubstr("LockOptions::at_most"));
  PassTo(ends);
  Fetch<ReleaseRequest>();
}

TEST_F(LockStateAtMostTest, MarginsFollowTheLongestTime) {
  const base::Instant ends = now() + kAtMost;
  const absl::Duration margin = absl::Milliseconds(1500);
  const Waiter& waiter =
      Hold({.stop_margin = absl::Milliseconds(500), .grace = absl::Seconds(1), .at_most = kAtMost});
  const Request last = RenewToTheEnd();
  EXPECT_GE(last.sent + last.lease, ends + margin);
  EXPECT_LE(last.sent + last.lease, ends + margin + DriftMargin(2 * kLease));
  EXPECT_LE(state().Deadline(waiter.hold), ends);
  PassToExpiry();
  EXPECT_EQ(effects().lost.size(), 1U);
  EXPECT_GE(state().next_request_at(), ends + margin - kExact);
}

TEST_F(LockStateAtMostTest, FailedRenewalIsTheReasonForLoss) {
  Hold({.at_most = kAtMost});
  Deliver(FetchDue<RenewRequest>(), Silence());
  PassToExpiry();
  EXPECT_THAT(LostBecause(), AllOf(HasSubstr("could not be renewed"), HasSubstr("no answer")));
}

// Each hold under a grant has its own time, and none begins under a grant that is about to end.
TEST_F(LockStateAtMostTest, EachHoldHasItsOwnTime) {
  const Want want{.turn = absl::Seconds(30), .at_most = kAtMost};
  Want second = want;
  second.thread = 2;
  const auto [first, other] = Contended(want, second);
  Deliver(FetchDue<RenewRequest>(), HoldRef());
  Pass(kThird / 2);
  const base::Instant ends = now() + kAtMost;
  Release(first->hold);
  ASSERT_TRUE(Woken(*other));
  Wake(*other);
  ASSERT_EQ(other->state, State::kGranted) << "it was passed on";
  const Waiter& third = Acquire({.thread = 3, .turn = absl::Seconds(30), .at_most = kAtMost});
  RenewToTheEnd();
  EXPECT_LE(state().Deadline(other->hold), ends);
  EXPECT_GE(state().Deadline(other->hold), ends - kExact);
  Release(other->hold);
  EXPECT_EQ(third.state, State::kWaiting);
  Fetch<ReleaseRequest>();
}

TEST_F(LockStateAtMostTest, ReentryDoesNotRestartTheTime) {
  Make({.reentrant = true});
  const base::Instant ends = now() + kAtMost;
  const Waiter& waiter = Hold({.face = Face::kStd, .at_most = kAtMost});
  Deliver(FetchDue<RenewRequest>(), HoldRef());
  ASSERT_TRUE(state().Reenter(1, Face::kStd, /*manual=*/false, now()));
  RenewToTheEnd();
  EXPECT_LE(state().Deadline(waiter.hold), ends);
}

TEST_F(LockStateAtMostTest, ConfirmedHandoverLastsToItsEnd) {
  const base::Instant began = now();
  const Waiter& waiter = Queue({.at_most = kLease});
  DeliverGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = absl::Milliseconds(400)});
  ASSERT_EQ(waiter.state, State::kGranted);
  Pass(absl::Milliseconds(100));
  const Request confirmation = Fetch<RenewRequest>();
  EXPECT_GT(confirmation.lease, absl::Milliseconds(400));
  Deliver(confirmation, HoldRef());
  EXPECT_LE(state().Deadline(waiter.hold), began + kLease);
  PassToExpiry();
  EXPECT_THAT(LostBecause(), HasSubstr("LockOptions::at_most"));
}

TEST_F(LockStateAtMostTest, ManualHoldIsNotExtendedBeyondTheTime) {
  const Waiter& waiter = Hold({.manual = true, .at_most = kAtMost});
  Pass(absl::Seconds(2));
  EXPECT_EQ(state().LongestExtension(waiter.hold, now()), absl::Seconds(8));
  const Waiter& other = Acquire();
  EXPECT_EQ(state().LongestExtension(other.hold, now()), absl::InfiniteDuration());
}

TEST_F(LockStateAtMostTest, ReadersDoNotShareGrant) {
  Make({.use = GrantUse::kShared, .reentrant = true});
  Waiter& first = Acquire({.at_most = kAtMost});
  EXPECT_EQ(Acquire({.thread = 2, .at_most = kAtMost}).state, State::kElsewhere);
  Deliver(Fetch<AcquireRequest>(), Granted());
  ASSERT_EQ(first.state, State::kGranted);
  EXPECT_EQ(Acquire({.thread = 3, .at_most = kAtMost}).state, State::kElsewhere);
  EXPECT_EQ(Acquire({.thread = 4}).state, State::kElsewhere);
}

}  // namespace
}  // namespace redlatch::internal
