// A client's turn with a lock that others wait for: how long the grant is cached, and for which
// threads.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kTurn = absl::Milliseconds(16);
constexpr absl::Duration kTurnTick = absl::Nanoseconds(1);
constexpr absl::Duration kClaim = absl::Milliseconds(1500);

class LockStateTurnTest : public LockStateTest {
 protected:
  static Want OfThread(uint64_t thread, absl::Duration turn = kTurn) {
    return {.thread = thread, .turn = turn};
  }

  // Other clients have the lock before this one.
  Waiter& Wait(absl::Duration turn = kTurn, absl::Duration lease = kClaim) {
    Waiter& waiter = Acquire(OfThread(1, turn));
    Deliver(Fetch<ReleaseRequest>(),
            ReleasedThen(AcquireQueued{.retry_after = kLease, .ticket = 7}));
    DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = lease});
    if (waiter.state != State::kGranted) ADD_FAILURE() << "not granted";
    return waiter;
  }
  void GoesBack(const Waiter& holder) {
    EXPECT_EQ(Release(holder.hold).kind, Kind::kUnconfirmed);
    state().Forget(holder.hold);
  }
  // The thread uses the lock until it could hardly come again within the turn.
  void EndTurn(const Waiter& holder) {
    Pass(kTurn / 2);
    EXPECT_EQ(Release(holder.hold).kind, Kind::kDone);
    Waiter& again = Acquire(OfThread(1));
    Pass(kTurn / 2 - kTurnTick);
    GoesBack(again);
  }
  // Two holds go back to the server, and one does not. Each time, the thread comes again at once.
  Waiter& ComesAgain(absl::Duration turn = kTurn) {
    Waiter& first = Acquire(OfThread(1, turn));
    Deliver(Fetch<AcquireRequest>(), Granted(/*others=*/1));
    GoesBack(first);
    GoesBack(Wait(turn));
    EXPECT_EQ(Release(Wait(turn).hold).kind, Kind::kDone);
    return Acquire(OfThread(1, turn));
  }
};

TEST_F(LockStateTurnTest, ReturningThreadNeedsNoServer) {
  uint64_t hold = ComesAgain().hold;
  FencingToken token = state().OfThread(1).token;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Release(hold).kind, Kind::kDone);
    EXPECT_TRUE(Quiet());
    Waiter& again = Acquire(OfThread(1));
    ASSERT_EQ(again.state, State::kGranted);
    EXPECT_GT(again.token, token);
    token = again.token;
    hold = again.hold;
  }
}

TEST_F(LockStateTurnTest, CachingEndsWithTurn) {
  Waiter& holder = ComesAgain();
  const base::Instant end = now() + kTurn;
  EXPECT_EQ(Release(holder.hold).kind, Kind::kDone);
  EXPECT_EQ(state().next_request_at(), end);
  PassTo(end);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_EQ(std::get<ReleaseRequest>(release.what).last_used, kToken + 1);
  Deliver(release, ReleasedThen());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateTurnTest, DoesNotPassOnAfterEnd) {
  Waiter& holder = ComesAgain();
  Waiter& other = Acquire(OfThread(2));
  Pass(kTurn - kTurnTick);
  EXPECT_EQ(Release(holder.hold).kind, Kind::kDone);
  EXPECT_EQ(other.state, State::kGranted) << "threads of the client take turns within its turn";
  Waiter& third = Acquire(OfThread(3));
  Pass(kTurnTick);
  EXPECT_EQ(Release(other.hold).kind, Kind::kUnconfirmed);
  EXPECT_EQ(third.state, State::kWaiting);
}

TEST_F(LockStateTurnTest, HandsOverAtOnceIfThreadsStayAway) {
  Waiter& holder = ComesAgain();
  Release(holder.hold);
  Pass(kTurn / 4);
  Waiter& late = Acquire(OfThread(1));
  EXPECT_EQ(late.state, State::kGranted) << "its turn is not over";
  GoesBack(late);  // it does not come back soon
  GoesBack(Wait());
  Release(Wait().hold);
  EXPECT_TRUE(Quiet()) << "it has come back soon twice";
}

TEST_F(LockStateTurnTest, HandsOverAtOnceIfThreadDoesNotComeBack) {
  Waiter& holder = ComesAgain();
  Release(holder.hold);
  PassTo(state().next_request_at());
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  Pass(kTurn);
  Waiter& late = Acquire(OfThread(1));
  Deliver(Fetch<AcquireRequest>(), Granted(/*others=*/1));
  GoesBack(late);
}

TEST_F(LockStateTurnTest, HandsOverBeforeTurnEndsIfThreadCouldBeLate) {
  Waiter& holder = ComesAgain();
  Pass(kTurn / 2);
  Release(holder.hold);
  Waiter& again = Acquire(OfThread(1));
  Pass(kTurn / 4 + kTurnTick);
  GoesBack(again);
}

// While another client has the lock, the system may let a thread of this one wait.
TEST_F(LockStateTurnTest, OneAbsenceAfterHandoverDoesNotCount) {
  EndTurn(ComesAgain());
  Pass(kTurn);
  Release(Wait().hold);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateTurnTest, TwoAbsencesAfterHandoversCount) {
  Waiter& first = Acquire(OfThread(1));
  Deliver(Fetch<AcquireRequest>(), Granted(/*others=*/1));
  GoesBack(first);
  GoesBack(Wait());
  Pass(kTurn);
  Waiter& second = Wait();
  Pass(kTurn / 2);
  GoesBack(second);
  Pass(kTurn);
  GoesBack(Wait());
}

// The call that releases may take longer than the thread stays away.
TEST_F(LockStateTurnTest, AbsenceBeginsWhenReleaseReturns) {
  EndTurn(ComesAgain());
  for (int i = 0; i < 2; ++i) {
    Pass(kTurn);
    state().OnLeft(now());
    EndTurn(Wait());
  }
  Release(Wait().hold);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateTurnTest, LongSectionsGoBack) {
  Waiter& holder = ComesAgain();
  Pass(kTurn / 2 + kTurnTick);
  GoesBack(holder);
  Acquire(OfThread(1));
  EXPECT_FALSE(AcquireOf(Fetch<ReleaseRequest>()).claims);
}

TEST_F(LockStateTurnTest, LockWithoutContentionHasNoTurn) {
  for (int i = 0; i < 4; ++i) {
    Waiter& waiter = Acquire(OfThread(1));
    const Request acquire = Fetch<AcquireRequest>();
    EXPECT_EQ(AcquireOf(acquire).amount, 1);
    Deliver(acquire, Granted());
    GoesBack(waiter);
    Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  }
}

TEST_F(LockStateTurnTest, TryOnOtherTermsAsksServer) {
  Waiter& holder = ComesAgain();
  Release(holder.hold);
  Want other = OfThread(1);
  other.lease = 2 * kLease;
  other.wait_limit = WaitLimit::kNone;
  Waiter& tried = Acquire(other);
  EXPECT_EQ(tried.state, State::kWaiting) << "the lock is this client's own";
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen(AcquireBusy()));
  EXPECT_EQ(tried.state, State::kBusy);
}

// Otherwise the lock would stay taken for a whole lease if this process ends.
TEST_F(LockStateTurnTest, HoldWithWholeLeaseIsNotCached) {
  const uint64_t hold = ComesAgain().hold;
  Pass(ConfirmAfter(kClaim));
  const Request renewal = Fetch<RenewRequest>();
  EXPECT_EQ(renewal.lease, kLease) << "the turn is over";
  Deliver(renewal, HoldRef());
  EXPECT_EQ(Release(hold).kind, Kind::kUnconfirmed);
}

TEST_F(LockStateTurnTest, StaysClaimWhileHoldsAreShort) {
  uint64_t hold = ComesAgain(absl::Seconds(10)).hold;
  for (int i = 0; i < 5; ++i) {
    const base::Instant due = state().next_request_at();
    EXPECT_LE(due, now() + kClaim / 3);
    PassTo(due);
    EXPECT_EQ(Release(hold).kind, Kind::kDone);
    hold = Acquire(OfThread(1, absl::Seconds(10))).hold;
    const Request renewal = Fetch<RenewRequest>();
    EXPECT_EQ(renewal.lease, kClaim) << i;
    Deliver(renewal, HoldRef());
  }
  PassTo(state().next_request_at());
  EXPECT_EQ(Fetch<RenewRequest>().lease, kLease) << "this section is longer";
}

TEST_F(LockStateTurnTest, OtherLeasesAreWholeFromStart) {
  Want whole = OfThread(1), manual = OfThread(1), none = OfThread(1);
  whole.whole = manual.manual = true;
  none.turn = absl::ZeroDuration();
  for (const Want& want : {whole, manual, none}) {
    Make({});
    Acquire(want);
    EXPECT_FALSE(AcquireOf(Fetch<AcquireRequest>()).claims);
  }
}

}  // namespace
}  // namespace redlatch::internal
