// Locks that stay taken after their release: AcquireOptions::at_least and Lease::Keep().

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

class LockStateKeepTest : public LockStateTest {
 protected:
  static constexpr absl::Duration kLong = absl::Minutes(10);
  static constexpr absl::Duration kShort = absl::Seconds(1);
  static constexpr uint64_t kUntilLong = kToken + 600'000'000;

  Waiter& HoldFor(absl::Duration at_least) {
    Waiter& waiter = Acquire({.whole = true, .at_least = at_least});
    Deliver(Fetch<AcquireRequest>(), Granted(0, std::max(kLease, at_least)));
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  ReleaseRequest FetchRelease() { return As<ReleaseRequest>(Fetch<ReleaseRequest>()); }
};

TEST_F(LockStateKeepTest, ReleaseSaysUntilWhen) {
  const Waiter& waiter = HoldFor(kLong);
  Release(waiter.hold);
  const ReleaseRequest release = FetchRelease();
  EXPECT_EQ(release.kept_until, kUntilLong);
  EXPECT_EQ(release.kept_for, kLong);
}

TEST_F(LockStateKeepTest, OtherReleasesDoNot) {
  const Waiter& waiter = Hold();
  Release(waiter.hold);
  EXPECT_EQ(FetchRelease().kept_until, 0U);
}

TEST_F(LockStateKeepTest, RenewalsAskForTheUsualLease) {
  const base::Instant asked = now();
  const Waiter& waiter = HoldFor(kLong);
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(asked, kLong));
  PassTo(asked + kThird);
  const Request renewal = Fetch<RenewRequest>();
  EXPECT_EQ(renewal.lease, kLease);
  Deliver(renewal, HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(asked, kLong)) << "it is not shortened";
}

TEST_F(LockStateKeepTest, IsNotPassedOn) {
  Waiter& first = Acquire({.whole = true, .turn = kLong, .at_least = kShort});
  const Waiter& other = Acquire({.thread = 2, .whole = true, .turn = kLong, .at_least = kShort});
  Deliver(Fetch<AcquireRequest>(), Granted());
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
TEST_F(LockStateKeepTest, RestOfAClaimIsNotEnough) {
  Waiter& waiter = Acquire({.whole = true, .at_least = kLong});
  Deliver(Fetch<AcquireRequest>(), Queued());
  Pass(absl::Seconds(1));
  Deliver(Fetch<AcquireRequest>(), Granted(0, kLease));
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Request again = Fetch<AcquireRequest>();
  EXPECT_EQ(AcquireOf(again).terms.first_lease(), kLong);
  Deliver(again, Granted(0, kLong));
  EXPECT_EQ(waiter.state, State::kGranted);
}

TEST_F(LockStateKeepTest, LostHoldIsKept) {
  const base::Instant asked = now();
  HoldFor(kShort);
  PassTo(asked + kValid - kLead);
  Expire();
  PassTo(asked + kValid);
  EXPECT_EQ(FetchRelease().kept_until, kToken + 1'000'000);
}

TEST_F(LockStateKeepTest, UnconfirmedHoldIsNotKept) {
  const Waiter& waiter = HoldFor(kLong);
  ASSERT_TRUE(state().Confirm(waiter.hold, now() + kThird, now()));
  Release(waiter.hold);
  EXPECT_EQ(FetchRelease().kept_until, 0U);
}

TEST_F(LockStateKeepTest, KeepCountsOnceConfirmed) {
  const Waiter& waiter = Hold();
  const std::optional<Request> keep = state().Keep(waiter.hold, kLong, now());
  ASSERT_TRUE(keep);
  EXPECT_EQ(keep->lease, kLong);
  EXPECT_EQ(state().Keep(waiter.hold, kShort, now())->lease, kLease) << "it shortens nothing";
  Deliver(*keep, HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(now(), kLong));
  state().OnKept(waiter.hold, kLong);
  Release(waiter.hold);
  EXPECT_EQ(FetchRelease().kept_until, kUntilLong);
}

TEST_F(LockStateKeepTest, UnansweredKeepDoesNotCount) {
  const Waiter& waiter = Hold();
  Deliver(*state().Keep(waiter.hold, kLong, now()), Silence());
  Release(waiter.hold);
  EXPECT_EQ(FetchRelease().kept_until, 0U);
}

TEST_F(LockStateKeepTest, AtMostStillEndsTheHold) {
  const base::Instant ends = now() + absl::Seconds(10);
  Waiter& waiter = Acquire({.whole = true, .at_most = absl::Seconds(10), .at_least = kLong});
  Deliver(Fetch<AcquireRequest>(), Granted(0, kLong));
  EXPECT_EQ(state().Deadline(waiter.hold), ends);
  PassTo(ends - kLead);
  Expire();
  EXPECT_EQ(effects().losses.size(), 1U);
  PassTo(ends);
  EXPECT_EQ(FetchRelease().kept_until, kUntilLong);
}

}  // namespace
}  // namespace redlatch::internal
