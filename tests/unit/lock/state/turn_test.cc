// A client's turn with a lock that others wait for: how long the grant is cached, and for which
// threads.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kTurn = absl::Milliseconds(16);
constexpr absl::Duration kSoon = absl::Milliseconds(1);
constexpr absl::Duration kTurnTick = absl::Nanoseconds(1);
constexpr absl::Duration kClaim = absl::Milliseconds(1500);

class LockStateTurnTest : public LockStateTest {
 protected:
  static Want OfThread(uint64_t thread, absl::Duration turn = kTurn) {
    return {.thread = thread, .turn = turn};
  }

  // The first hold goes back to the server, and the thread comes again at once while others have
  // the lock.
  Waiter& ComesAgain(absl::Duration turn = kTurn) {
    Waiter& first = Acquire(OfThread(1, turn));
    Deliver(Fetch<AcquireRequest>(), Granted(/*others=*/1));
    EXPECT_EQ(Release(first.hold).kind, Kind::kUnconfirmed);
    state().Forget(first.hold);
    Waiter& again = Acquire(OfThread(1, turn));
    Deliver(Fetch<ReleaseRequest>(),
            ReleasedThen(AcquireQueued{.retry_after = kLease, .ticket = 7}));
    DeliverGrant(
        {.grant = base::Numbers::Secret(kKey, 3), .attempt = 1, .token = kToken, .lease = kClaim});
    if (again.state != State::kGranted) ADD_FAILURE() << "not granted";
    return again;
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
  EXPECT_EQ(std::get<ReleaseRequest>(release.what).last_used, kToken);
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
  Pass(kSoon + kTurnTick);
  Waiter& late = Acquire(OfThread(1));
  EXPECT_EQ(late.state, State::kGranted) << "its turn is not over";
  EXPECT_EQ(Release(late.hold).kind, Kind::kUnconfirmed) << "it does not come back soon";
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
