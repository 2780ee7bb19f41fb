// How the lock is got: by a reply, by a message, in either order, too late, unwanted.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using LockStateGrantTest = LockStateTest;

TEST_F(LockStateGrantTest, ReplyGrantsFromSendTime) {
  Waiter& waiter = Acquire();
  const Request request = Fetch<AcquireRequest>();
  EXPECT_TRUE(BidOf(request).wait);
  EXPECT_EQ(BidOf(request).attempt, 1U);
  EXPECT_EQ(BidOf(request).block, 1U);
  EXPECT_TRUE(Quiet());
  Pass(absl::Milliseconds(100));
  Hear(request, Granted());
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
  Pass(kThird);
  const Request heartbeat = Fetch<AcquireRequest>();
  EXPECT_EQ(BidOf(heartbeat).attempt, 2U);
  EXPECT_EQ(BidOf(heartbeat).ticket, 77U);
  Pass(absl::Milliseconds(1));
  ASSERT_EQ(BidOf(heartbeat).grant, early.grant);
  HearGrant(early);  // attempt 1 was answered, and is still remembered
  EXPECT_EQ(state().Deadline(waiter.hold), first_sent + kValid);
  Hear(heartbeat, Granted());
  EXPECT_EQ(state().Deadline(waiter.hold), heartbeat.sent + kValid);
}

TEST_F(LockStateGrantTest, DeadlineCountsFromAttemptNamedInGrant) {
  Waiter& waiter = Acquire();
  const Request first = Fetch<AcquireRequest>();
  Hear(first, Silence());
  Pass(kThird);
  const Request second = Fetch<AcquireRequest>();
  Hear(second, Silence());
  Pass(kThird);
  HearGrant(GrantOf(first));
  EXPECT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(state().Deadline(waiter.hold), first.sent + kValid);
  EXPECT_EQ(state().next_request_at(), now() + absl::Milliseconds(100)) << "it is only a claim";
  Pass(absl::Milliseconds(100));
  Hear(Fetch<RenewRequest>(), HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), now() + kValid);
}

TEST_F(LockStateGrantTest, ReplyAfterDeadlineGrantsNothing) {
  Waiter& waiter = Acquire();
  const Request request = Fetch<AcquireRequest>();
  Pass(kValid);
  Hear(request, Granted());
  EXPECT_EQ(waiter.state, State::kWaiting);
  PassTo(state().next_request_at());
  const Request again = Fetch<AcquireRequest>();
  EXPECT_EQ(BidOf(again).grant, BidOf(request).grant);
  EXPECT_EQ(BidOf(again).attempt, 2U);
  // Whoever gives up now leaves a hold behind at the server.
  Hear(again, Silence(false));
  GiveUp(waiter);
  EXPECT_EQ(Fetch<CancelRequest>().grant, BidOf(request).grant);
}

// An attempt that nobody remembers once counted from the boot of the machine.
TEST_F(LockStateGrantTest, ForgottenAttemptIsOverIfLeaseExceedsUptime) {
  const absl::Duration day = absl::Hours(24);
  Waiter& waiter = Queue({.lease = day});
  HearGrant({.grant = kFirst, .attempt = 9, .token = kToken, .lease = day});
  EXPECT_EQ(waiter.state, State::kWaiting);
}

TEST_F(LockStateGrantTest, LateAcquireAfterRetryAndReleaseIsCancelled) {
  Waiter& waiter = Acquire();
  const Request first = Fetch<AcquireRequest>();
  Hear(first, Silence());
  PassTo(state().next_request_at());
  Hear(Fetch<AcquireRequest>(), Granted());
  Release(waiter.hold);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_TRUE(release.leaves_tombstone()) << "the first attempt may come yet";
  Hear(release, ReleasedThen());
  state().Forget(waiter.hold);
  EXPECT_TRUE(state().idle());
  Hear(first, Granted());
  EXPECT_EQ(Fetch<CancelRequest>().grant, BidOf(first).grant);
}

TEST_F(LockStateGrantTest, UnwantedQueuedRequestIsCancelled) {
  Waiter& waiter = Acquire();
  const Request request = Fetch<AcquireRequest>();
  GiveUp(waiter, State::kStopped);
  const Request cancel = Fetch<CancelRequest>();
  EXPECT_TRUE(cancel.leaves_tombstone());
  Hear(cancel, Cancelled());
  Hear(request, Queued());
  Hear(Fetch<CancelRequest>(), Cancelled());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateGrantTest, StaleGrantMessageChangesNothing) {
  Waiter& first = Acquire();
  const Request request = Fetch<AcquireRequest>();
  Hear(request, Granted());
  Release(first.hold);
  Hear(Fetch<ReleaseRequest>(), ReleasedThen());
  state().Forget(first.hold);
  Waiter& second = Acquire();
  HearGrant(GrantOf(request));
  EXPECT_EQ(second.state, State::kWaiting);
  Hear(Fetch<AcquireRequest>(), Granted(0, kLease, kToken + 1));
  HearGrant(GrantOf(request));
  EXPECT_EQ(second.token.value(), kToken + 1);
}

// The entry in the queue was once left behind, a ghost that could become the owner.
TEST_F(LockStateGrantTest, QueuedAfterGrantOfEarlierAttemptEndsHold) {
  Waiter& waiter = Queue();
  Pass(kThird);
  const Request heartbeat = Fetch<AcquireRequest>();
  HearGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = kLease});
  EXPECT_EQ(waiter.state, State::kGranted);
  Hear(heartbeat, Queued());  // somebody forced its release meanwhile
  EXPECT_FALSE(Valid(waiter));
  ASSERT_EQ(effects().losses.size(), 1U);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_EQ(release.grant, BidOf(heartbeat).grant);
  Hear(release, NotHeld());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateGrantTest, TombstoneMakesItAskUnderNewId) {
  Waiter& waiter = Acquire();
  const Request request = Fetch<AcquireRequest>();
  Hear(request, {.what = AcquireCancelled()});
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_NE(BidOf(Fetch<AcquireRequest>()).grant, BidOf(request).grant);
}

TEST_F(LockStateGrantTest, ManualGrantLastsForRemainingTime) {
  Waiter& waiter = Acquire({.manual = true});
  const Request request = Fetch<AcquireRequest>();
  Hear(request, Granted(0, absl::Seconds(1)));
  EXPECT_EQ(state().Deadline(waiter.hold), request.sent + absl::Milliseconds(988));
  EXPECT_TRUE(state().next_request_at().is_infinite());
}

}  // namespace
}  // namespace redlatch::internal
