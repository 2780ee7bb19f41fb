// How the lock is got: by a reply, by a message, in either order, too late, unwanted.
#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

using LockMachineGrantTest = LockMachineTest;

TEST_F(LockMachineGrantTest, ReplyGrantsFromTheSending) {
  Waiter& waiter = Acquire();
  const Send send = Fetch<ToAcquire>();
  EXPECT_TRUE(BidOf(send).wait);
  EXPECT_EQ(BidOf(send).attempt, 1U);
  EXPECT_EQ(BidOf(send).block, 1U);
  EXPECT_TRUE(Quiet());
  Pass(absl::Milliseconds(100));
  Hear(send, Granted());
  EXPECT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(waiter.token.value(), kToken);
  EXPECT_TRUE(Woken(waiter));
  EXPECT_EQ(machine().Deadline(waiter.hold), send.sent + kValid);
  EXPECT_EQ(machine().next_expiry(), send.sent + kValid - kLead);
  EXPECT_EQ(machine().next_send(), send.sent + kThird);
}

TEST_F(LockMachineGrantTest, ReplyOfALaterAttemptProlongsAHoldByMessage) {
  Waiter& waiter = Queue();
  const NewGrant early{.grant = kFirst, .attempt = 1, .token = kToken, .claim = kLease};
  const base::Instant first_sent = now();
  Pass(kThird);
  const Send heartbeat = Fetch<ToAcquire>();
  EXPECT_EQ(BidOf(heartbeat).attempt, 2U);
  EXPECT_EQ(BidOf(heartbeat).ticket, 77U);
  Pass(absl::Milliseconds(1));
  ASSERT_EQ(BidOf(heartbeat).grant, early.grant);
  HearGrant(early);  // attempt 1 was answered, and is still remembered
  EXPECT_EQ(machine().Deadline(waiter.hold), first_sent + kValid);
  Hear(heartbeat, Granted());
  EXPECT_EQ(machine().Deadline(waiter.hold), heartbeat.sent + kValid);
}

TEST_F(LockMachineGrantTest, DeadlineCountsFromTheAttemptThatTheGrantEchoes) {
  Waiter& waiter = Acquire();
  const Send first = Fetch<ToAcquire>();
  Hear(first, Silence());
  Pass(kThird);
  const Send second = Fetch<ToAcquire>();
  Hear(second, Silence());
  Pass(kThird);
  HearGrant(GrantOf(first));
  EXPECT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(machine().Deadline(waiter.hold), first.sent + kValid);
  EXPECT_EQ(machine().next_send(), now() + absl::Milliseconds(100)) << "it is only a claim";
  Pass(absl::Milliseconds(100));
  Hear(Fetch<ToRenew>(), Held());
  EXPECT_EQ(machine().Deadline(waiter.hold), now() + kValid);
}

TEST_F(LockMachineGrantTest, ReplyAfterItsDeadlineGrantsNothing) {
  Waiter& waiter = Acquire();
  const Send send = Fetch<ToAcquire>();
  Pass(kValid);
  Hear(send, Granted());
  EXPECT_EQ(waiter.state, State::kWaiting);
  PassTo(machine().next_send());
  const Send again = Fetch<ToAcquire>();
  EXPECT_EQ(BidOf(again).grant, BidOf(send).grant);
  EXPECT_EQ(BidOf(again).attempt, 2U);
  // Whoever gives up now leaves a hold behind at the server.
  Hear(again, Silence(false));
  GiveUp(waiter);
  EXPECT_EQ(Fetch<ToCancel>().grant, BidOf(send).grant);
}

// An attempt that nobody remembers once counted from the boot of the machine.
TEST_F(LockMachineGrantTest, ForgottenAttemptIsOverThoughTheLeaseIsLongerThanTheUptime) {
  const absl::Duration day = absl::Hours(24);
  Waiter& waiter = Queue({.lease = day});
  HearGrant({.grant = kFirst, .attempt = 9, .token = kToken, .claim = day});
  EXPECT_EQ(waiter.state, State::kWaiting);
}

TEST_F(LockMachineGrantTest, LateAcquireAfterRetryAndReleaseIsCancelled) {
  Waiter& waiter = Acquire();
  const Send first = Fetch<ToAcquire>();
  Hear(first, Silence());
  PassTo(machine().next_send());
  Hear(Fetch<ToAcquire>(), Granted());
  Release(waiter.hold);
  const Send release = Fetch<ToRelease>();
  EXPECT_TRUE(release.leaves_tombstone()) << "the first attempt may come yet";
  Hear(release, ReleasedThen());
  machine().Forget(waiter.hold);
  EXPECT_TRUE(machine().idle());
  Hear(first, Granted());
  EXPECT_EQ(Fetch<ToCancel>().grant, BidOf(first).grant);
}

TEST_F(LockMachineGrantTest, QueuedUnwantedIsCancelledToo) {
  Waiter& waiter = Acquire();
  const Send send = Fetch<ToAcquire>();
  GiveUp(waiter, State::kStopped);
  const Send cancel = Fetch<ToCancel>();
  EXPECT_TRUE(cancel.leaves_tombstone());
  Hear(cancel, Cancelled());
  Hear(send, Queued());
  Hear(Fetch<ToCancel>(), Cancelled());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineGrantTest, StaleGrantOfAnEarlierHoldChangesNothing) {
  Waiter& first = Acquire();
  const Send send = Fetch<ToAcquire>();
  Hear(send, Granted());
  Release(first.hold);
  Hear(Fetch<ToRelease>(), ReleasedThen());
  machine().Forget(first.hold);
  Waiter& second = Acquire();
  HearGrant(GrantOf(send));
  EXPECT_EQ(second.state, State::kWaiting);
  Hear(Fetch<ToAcquire>(), Granted(0, kLease, kToken + 1));
  HearGrant(GrantOf(send));
  EXPECT_EQ(second.token.value(), kToken + 1);
}

// The entry in the queue was once left behind, a ghost that could become the owner.
TEST_F(LockMachineGrantTest, QueuedAfterTheGrantOfAnEarlierAttemptMeansTheHoldIsOver) {
  Waiter& waiter = Queue();
  Pass(kThird);
  const Send heartbeat = Fetch<ToAcquire>();
  HearGrant({.grant = kFirst, .attempt = 1, .token = kToken, .claim = kLease});
  EXPECT_EQ(waiter.state, State::kGranted);
  Hear(heartbeat, Queued());  // somebody forced its release meanwhile
  EXPECT_FALSE(Valid(waiter));
  ASSERT_EQ(effects().losses.size(), 1U);
  const Send release = Fetch<ToRelease>();
  EXPECT_EQ(release.grant, BidOf(heartbeat).grant);
  Hear(release, NotHeld());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineGrantTest, GoneStartsAFreshHold) {
  Waiter& waiter = Acquire();
  const Send send = Fetch<ToAcquire>();
  Hear(send, {.what = BidGone()});
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_NE(BidOf(Fetch<ToAcquire>()).grant, BidOf(send).grant);
}

TEST_F(LockMachineGrantTest, ManualGrantLastsWhatIsLeftOfIt) {
  Waiter& waiter = Acquire({.manual = true});
  const Send send = Fetch<ToAcquire>();
  Hear(send, Granted(0, absl::Seconds(1)));
  EXPECT_EQ(machine().Deadline(waiter.hold), send.sent + absl::Milliseconds(988));
  EXPECT_TRUE(machine().next_send().is_infinite());
}

}  // namespace
}  // namespace redlatch::engine
