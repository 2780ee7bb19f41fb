// Grants by reply and by message: in either order, too late, unwanted.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using LockStateGrantTest = LockStateTest;

TEST_F(LockStateGrantTest, ReplyGrantsFromSendTime) {
  const auto [waiter, request] = Asked();
  EXPECT_TRUE(AcquireOf(request).wait);
  EXPECT_EQ(AcquireOf(request).attempt, 1U);
  EXPECT_EQ(AcquireOf(request).amount, 1U);
  EXPECT_TRUE(Quiet());
  Pass(absl::Milliseconds(100));
  Deliver(request, Granted());
  EXPECT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(waiter.token.value(), kToken);
  EXPECT_TRUE(Woken(waiter));
  EXPECT_EQ(state().Deadline(waiter.hold), request.sent + kValid);
  EXPECT_EQ(state().next_expiry(), request.sent + kValid - kLead);
  EXPECT_EQ(state().next_request_at(), request.sent + kThird);
}

TEST_F(LockStateGrantTest, LaterAttemptsReplyProlongsGrantByMessage) {
  Waiter& waiter = Queue();
  const NewGrant early{.grant = kFirst, .attempt = 1, .token = kToken, .lease = kLease};
  const base::Instant first_sent = now();
  const Request heartbeat = FetchDue<AcquireRequest>();
  EXPECT_EQ(AcquireOf(heartbeat).attempt, 2U);
  EXPECT_EQ(AcquireOf(heartbeat).ticket, 77U);
  Pass(absl::Milliseconds(1));
  ASSERT_EQ(AcquireOf(heartbeat).grant, early.grant);
  DeliverGrant(early);  // attempt 1 is answered, but still remembered
  EXPECT_EQ(state().Deadline(waiter.hold), first_sent + kValid);
  Deliver(heartbeat, Granted());
  EXPECT_EQ(state().Deadline(waiter.hold), heartbeat.sent + kValid);
  EXPECT_EQ(state().next_request_at(), heartbeat.sent + kThird) << "nothing is left to confirm";
}

TEST_F(LockStateGrantTest, DeadlineCountsFromAttemptNamedInGrant) {
  const auto [waiter, first] = Asked();
  Deliver(first, Silence());
  const Request second = FetchDue<AcquireRequest>();
  Deliver(second, Silence());
  Pass(kThird);
  DeliverGrant(GrantOf(first));
  EXPECT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(state().Deadline(waiter.hold), first.sent + kValid);
  EXPECT_EQ(state().next_request_at(), now() + absl::Milliseconds(100)) << "it is only a claim";
  Pass(absl::Milliseconds(100));
  Deliver(Fetch<RenewRequest>(), HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), now() + kValid);
}

TEST_F(LockStateGrantTest, ReplyAfterDeadlineGrantsNothing) {
  const auto [waiter, request] = Asked();
  Pass(kValid);
  Deliver(request, Granted());
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Request again = FetchDue<AcquireRequest>();
  EXPECT_EQ(AcquireOf(again).grant, AcquireOf(request).grant);
  EXPECT_EQ(AcquireOf(again).attempt, 2U);
  // A waiter that gives up now leaves a grant at the server.
  Deliver(again, Silence(false));
  GiveUp(waiter);
  EXPECT_EQ(Fetch<CancelRequest>().grant, AcquireOf(request).grant);
}

// A forgotten attempt must not count from the machine's boot.
TEST_F(LockStateGrantTest, ForgottenAttemptIsOverSoonAfterBoot) {
  const absl::Duration day = absl::Hours(24);
  Waiter& waiter = Queue({.lease = day});
  DeliverGrant({.grant = kFirst, .attempt = 9, .token = kToken, .lease = day});
  EXPECT_EQ(waiter.state, State::kWaiting);
}

TEST_F(LockStateGrantTest, LateAcquireAfterReleaseIsCancelled) {
  const auto [waiter, first] = Asked();
  Deliver(first, Silence());
  Deliver(FetchDue<AcquireRequest>(), Granted());
  const Request release = FetchReleaseOf(waiter.hold);
  EXPECT_TRUE(release.leaves_tombstone()) << "the first attempt may come yet";
  Deliver(release, ReleasedThen());
  state().Forget(waiter.hold);
  EXPECT_TRUE(state().idle());
  Deliver(first, Granted());
  EXPECT_EQ(Fetch<CancelRequest>().grant, AcquireOf(first).grant);
}

TEST_F(LockStateGrantTest, UnwantedQueuedRequestIsCancelled) {
  const auto [waiter, request] = Asked();
  GiveUp(waiter, State::kStopped);
  const Request cancel = Fetch<CancelRequest>();
  EXPECT_TRUE(cancel.leaves_tombstone());
  Deliver(cancel, Cancelled());
  Deliver(request, Queued());
  Deliver(Fetch<CancelRequest>(), Cancelled());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateGrantTest, StaleGrantMessageChangesNothing) {
  const auto [first, request] = Asked();
  Deliver(request, Granted());
  Deliver(FetchReleaseOf(first.hold), ReleasedThen());
  state().Forget(first.hold);
  Waiter& second = Acquire();
  DeliverGrant(GrantOf(request));
  EXPECT_EQ(second.state, State::kWaiting);
  Deliver(Fetch<AcquireRequest>(), Granted(0, kLease, kToken + 1));
  DeliverGrant(GrantOf(request));
  EXPECT_EQ(second.token.value(), kToken + 1);
}

// The entry in the queue must not stay behind and become the owner.
TEST_F(LockStateGrantTest, QueuedAfterGrantOfEarlierAttemptEndsHold) {
  Waiter& waiter = Queue();
  const Request heartbeat = FetchDue<AcquireRequest>();
  DeliverGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = kLease});
  EXPECT_EQ(waiter.state, State::kGranted);
  Deliver(heartbeat, Queued());  // its release was forced meanwhile
  EXPECT_FALSE(Valid(waiter));
  ASSERT_EQ(effects().lost.size(), 1U);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_EQ(release.grant, AcquireOf(heartbeat).grant);
  Deliver(release, NotHeld());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateGrantTest, TombstoneMakesItAskUnderNewId) {
  const auto [waiter, request] = Asked();
  Deliver(request, {.what = AcquireCancelled()});
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_NE(AcquireOf(Fetch<AcquireRequest>()).grant, AcquireOf(request).grant);
}

TEST_F(LockStateGrantTest, ManualGrantLastsForRemainingTime) {
  const auto [waiter, request] = Asked({.manual = true});
  Deliver(request, Granted(0, absl::Seconds(1)));
  EXPECT_EQ(state().Deadline(waiter.hold), request.sent + absl::Milliseconds(988));
  EXPECT_TRUE(state().next_request_at().is_infinite());
}

}  // namespace
}  // namespace redlatch::internal
