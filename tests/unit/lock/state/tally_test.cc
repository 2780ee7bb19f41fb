// The counts of a lock state.
#include "src/lock/state/tally.h"

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct TallyStateTest : LockStateTest {
  TallyStateTest() { Make({.counts = true}); }

  LockStats Counted() {
    LockStats stats;
    state().AddCountsTo(stats);
    state().AddStateTo(stats);
    EXPECT_EQ(stats.acquired,
              stats.released + stats.releases_failed + stats.lost + stats.held + stats.releasing);
    return stats;
  }
  void ReleaseAtServer(const Waiter& holder) {
    Deliver(FetchReleaseOf(holder.hold), ReleasedThen());
    EXPECT_EQ(state().Outcome(holder.hold).kind, Kind::kDone);
  }
};

TEST_F(TallyStateTest, CountsHoldWithWaitAndDuration) {
  const auto [holder, acquire] = Asked();
  Deliver(acquire, Queued());
  EXPECT_EQ(Counted().waiting, 1);
  Pass(absl::Milliseconds(100));
  DeliverGrant(GrantOf(acquire));
  EXPECT_EQ(Counted().acquired, 1);
  EXPECT_EQ(Counted().passed_on, 0);
  EXPECT_EQ(Counted().held, 1);
  EXPECT_EQ(Counted().waiting, 0);
  Pass(absl::Milliseconds(7));
  ReleaseAtServer(holder);
  EXPECT_EQ(Counted().released, 1);
  EXPECT_EQ(Counted().releases_failed, 0);
  EXPECT_EQ(Counted().waited.sum, absl::Milliseconds(100));
  EXPECT_EQ(Counted().held_for.sum, absl::Milliseconds(7));
}

TEST_F(TallyStateTest, CountsEachReaderAsHold) {
  Make({.use = GrantUse::kShared, .reentrant = true, .counts = true});
  Waiter& first = Hold();
  Waiter& second = Acquire({.thread = 2});
  ASSERT_EQ(second.state, State::kGranted);
  EXPECT_EQ(Counted().acquired, 2);
  EXPECT_EQ(Counted().passed_on, 1);
  EXPECT_EQ(Counted().held, 2);
  Release(first.hold);
  ReleaseAtServer(second);
  EXPECT_EQ(Counted().released, 2);
  EXPECT_EQ(Counted().held, 0);
}

TEST_F(TallyStateTest, CountsCallsWithoutLockByReason) {
  Hold();
  EXPECT_EQ(Acquire({.thread = 2, .wait_limit = WaitLimit::kNone}).state, State::kBusy);
  EXPECT_EQ(Counted().busy, 1);
  GiveUp(Acquire({.thread = 2, .wait_limit = WaitLimit::kBounded}));
  EXPECT_EQ(Counted().busy, 2);
  GiveUp(Acquire({.thread = 2}), State::kStopped);
  EXPECT_EQ(Counted().cancelled, 1);
  Waiter refused;
  state().Refuse(refused, State::kFailed);
  EXPECT_EQ(Counted().failed, 1);
  EXPECT_EQ(Counted().waiting, 0);
  EXPECT_EQ(Counted().waited.count(), 1);
}

TEST_F(TallyStateTest, LossEndsHoldButIsNoRelease) {
  Waiter& holder = Hold();
  Pass(kValid);
  Expire();
  EXPECT_FALSE(Valid(holder));
  EXPECT_EQ(Counted().lost, 1);
  EXPECT_EQ(Counted().released, 0);
  EXPECT_EQ(Counted().held, 0);
  EXPECT_EQ(Counted().held_for.sum, kValid);
  Pass(absl::Seconds(1));
  while (const auto request = Next()) Deliver(*request, NotHeld());
  EXPECT_EQ(Release(holder.hold).kind, Kind::kLost);
  EXPECT_EQ(Counted().releases_failed, 0) << "there was nothing to be released";
}

TEST_F(TallyStateTest, CountsRenewalsAndFailures) {
  Hold();
  Deliver(FetchDue<RenewRequest>(), HoldRef());
  EXPECT_EQ(Counted().renewed, 1);
  Deliver(FetchDue<RenewRequest>(), Silence());
  Pass(absl::Seconds(1));
  Deliver(Fetch<RenewRequest>(), Silence());
  EXPECT_EQ(Counted().renewed, 1);
  EXPECT_EQ(Counted().renewals_failed, 2);
  EXPECT_EQ(Counted().lost, 0);
}

TEST_F(TallyStateTest, RefusedReleaseIsCountedAndReportedOnce) {
  Waiter& holder = Hold();
  Release(holder.hold);
  EXPECT_EQ(Counted().releasing, 1);
  Deliver(Fetch<ReleaseRequest>(), Refusal(absl::PermissionDeniedError("NOPERM")));
  ASSERT_EQ(effects().notices.size(), 1U);
  EXPECT_EQ(effects().notices[0].kind, Notice::Kind::kReleaseFailed);
  EXPECT_EQ(effects().notices[0].token, holder.token);
  EXPECT_EQ(effects().notices[0].remaining, kLease);
  EXPECT_EQ(state().Outcome(holder.hold).kind, Kind::kRefused);
  EXPECT_EQ(Counted().released, 0);
  EXPECT_EQ(Counted().releases_failed, 1);
}

TEST_F(TallyStateTest, CountsReleaseWhenServerConfirmsIt) {
  Make({.counts = true}, /*retakes=*/1);
  auto [holder, other] = Contended({}, {.thread = 2});
  Release(holder->hold);
  EXPECT_EQ(Counted().releasing, 1) << "it is between two threads";
  GiveUp(*other);
  EXPECT_EQ(Counted().releasing, 1);
  Deliver(Fetch<ReleaseRequest>(), Refusal(absl::PermissionDeniedError("NOPERM")));
  ASSERT_EQ(effects().notices.size(), 1U);
  EXPECT_EQ(effects().notices[0].token, holder->token);
  EXPECT_EQ(Counted().releases_failed, 1);
}

}  // namespace
}  // namespace redlatch::internal
