// Locks that stay taken after their release: AcquireOptions::at_least and Lease::StayTaken().

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct LockStateStayTakenTest : LockStateTest {
  static constexpr absl::Duration kLong = absl::Minutes(10);
  static constexpr absl::Duration kShort = absl::Seconds(1);
  static constexpr uint64_t kUntilLong = kToken + 600'000'000;

  Waiter& HoldFor(absl::Duration at_least) {
    Waiter& waiter =
        Answered(Granted(0, std::max(kLease, at_least)), {.whole = true, .at_least = at_least});
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  // Until when the release of that hold leaves the lock taken.
  uint64_t TakenUntil(const Waiter& holder) {
    return As<ReleaseRequest>(FetchReleaseOf(holder.hold)).taken_until;
  }
};

TEST_F(LockStateStayTakenTest, ReleaseSaysUntilWhen) {
  const Waiter& waiter = HoldFor(kLong);
  const auto release = As<ReleaseRequest>(FetchReleaseOf(waiter.hold));
  EXPECT_EQ(release.taken_until, kUntilLong);
  EXPECT_EQ(release.taken_for, kLong);
  Make({});
  EXPECT_EQ(TakenUntil(Hold()), 0U) << "of any other lock";
}

TEST_F(LockStateStayTakenTest, RenewalsAskForTheUsualLease) {
  const base::Instant asked = now();
  const Waiter& waiter = HoldFor(kLong);
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(asked, kLong));
  PassTo(asked + kThird);
  const Request renewal = Fetch<RenewRequest>();
  EXPECT_EQ(renewal.lease, kLease);
  Deliver(renewal, HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(asked, kLong)) << "it is not shortened";
}

TEST_F(LockStateStayTakenTest, IsNotPassedOn) {
  Waiter& first = Acquire({.whole = true, .turn = kLong, .at_least = kShort});
  const Waiter& other =
      Answered(Granted(), {.thread = 2, .whole = true, .turn = kLong, .at_least = kShort});
  Release(first.hold);
  EXPECT_EQ(other.state, State::kWaiting);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_FALSE(As<ReleaseRequest>(release).next);
  EXPECT_TRUE(Quiet()) << "the next acquire must not overtake the release";
  EXPECT_TRUE(state().next_request_at().is_infinite());
  Deliver(release, ReleasedThen());
  EXPECT_TRUE(AcquireOf(Fetch<AcquireRequest>()).wait) << "and is queued";
}

// A killed process has had the lock for as long.
TEST_F(LockStateStayTakenTest, RestOfAClaimIsNotEnough) {
  Waiter& waiter = Answered(Queued(), {.whole = true, .at_least = kLong});
  Pass(absl::Seconds(1));
  Deliver(Fetch<AcquireRequest>(), Granted(0, kLease));
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Request again = Fetch<AcquireRequest>();
  EXPECT_EQ(AcquireOf(again).terms.first_lease(), kLong);
  Deliver(again, Granted(0, kLong));
  EXPECT_EQ(waiter.state, State::kGranted);
}

TEST_F(LockStateStayTakenTest, LostHoldStaysTaken) {
  const base::Instant asked = now();
  HoldFor(kShort);
  PassTo(asked + kValid - kLead);
  Expire();
  PassTo(asked + kValid);
  EXPECT_EQ(As<ReleaseRequest>(Fetch<ReleaseRequest>()).taken_until, kToken + 1'000'000);
}

TEST_F(LockStateStayTakenTest, UnconfirmedHoldDoesNotStayTaken) {
  const Waiter& waiter = HoldFor(kLong);
  ASSERT_TRUE(state().Confirm(waiter.hold, now() + kThird, now()));
  EXPECT_EQ(TakenUntil(waiter), 0U);
}

TEST_F(LockStateStayTakenTest, RequestCountsOnceConfirmed) {
  const Waiter& waiter = Hold();
  const std::optional<Request> request = state().StayTaken(waiter.hold, kLong, now());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->lease, kLong);
  EXPECT_EQ(state().StayTaken(waiter.hold, kShort, now())->lease, kLease) << "it shortens nothing";
  Deliver(*request, HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(now(), kLong));
  state().OnStaysTaken(waiter.hold, kLong);
  EXPECT_EQ(TakenUntil(waiter), kUntilLong);
}

TEST_F(LockStateStayTakenTest, UnansweredRequestDoesNotCount) {
  const Waiter& waiter = Hold();
  Deliver(*state().StayTaken(waiter.hold, kLong, now()), Silence());
  EXPECT_EQ(TakenUntil(waiter), 0U);
}

TEST_F(LockStateStayTakenTest, AtMostStillEndsTheHold) {
  const base::Instant ends = now() + absl::Seconds(10);
  Waiter& waiter =
      Answered(Granted(0, kLong), {.whole = true, .at_most = absl::Seconds(10), .at_least = kLong});
  EXPECT_EQ(state().Deadline(waiter.hold), ends);
  PassTo(ends - kLead);
  Expire();
  EXPECT_EQ(effects().lost.size(), 1U);
  PassTo(ends);
  EXPECT_EQ(As<ReleaseRequest>(Fetch<ReleaseRequest>()).taken_until, kUntilLong);
}

}  // namespace
}  // namespace redlatch::internal
