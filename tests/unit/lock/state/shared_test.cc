// Holds that the threads of one client share: readers.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct SharedStateTest : LockStateTest {
  static constexpr absl::Duration kWindow = absl::Milliseconds(5);

  SharedStateTest() { Make({.use = GrantUse::kShared, .reentrant = true}); }

  static Result HeldWith(int64_t others) { return {.what = StillHeld{.others = others}}; }
  // A reader whose grant says how many others wait.
  Waiter& Read(uint64_t thread, int64_t others = 0) {
    Waiter& waiter = Answered(Granted(others), {.thread = thread});
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
};

TEST_F(SharedStateTest, ReaderJoinsWithinTurnWithoutRoundTrip) {
  const Waiter& first = Read(1);
  Pass(kWindow - absl::Milliseconds(1));
  const Waiter& second = Acquire({.thread = 2});
  EXPECT_EQ(second.state, State::kGranted);
  EXPECT_NE(second.hold, first.hold);
  EXPECT_EQ(second.token, first.token);
  EXPECT_TRUE(Valid(first));
  EXPECT_TRUE(Valid(second));
  EXPECT_TRUE(Quiet());
}

TEST_F(SharedStateTest, NoReaderJoinsIfWriterIsKnownToWait) {
  Read(1, 1);
  EXPECT_EQ(Acquire({.thread = 2}).state, State::kElsewhere);
  EXPECT_TRUE(Quiet());
}

TEST_F(SharedStateTest, ReaderReentersDespiteWaitingWriter) {
  Waiter& first = Read(1, 1);
  Pass(2 * kWindow);
  const Waiter& again = Acquire({.thread = 1});
  EXPECT_EQ(again.state, State::kGranted);
  EXPECT_EQ(again.hold, first.hold);
  EXPECT_EQ(Release(first.hold).kind, Kind::kDone);
  EXPECT_TRUE(Valid(first));
  EXPECT_EQ(Release(first.hold).kind, Kind::kUnconfirmed);
}

TEST_F(SharedStateTest, AsksServerAfterTurnIfReadersMayJoin) {
  Read(1);
  Pass(kWindow);
  Waiter& second = Acquire({.thread = 2});
  EXPECT_EQ(second.state, State::kWaiting);
  const Request probe = Fetch<RenewRequest>();
  Pass(absl::Milliseconds(1));
  Deliver(probe, HeldWith(0));
  EXPECT_EQ(second.state, State::kGranted);
  EXPECT_TRUE(Woken(second));
  // The turn counts from the request.
  Pass(kWindow - absl::Milliseconds(2));
  EXPECT_EQ(Acquire({.thread = 3}).state, State::kGranted);
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(Acquire({.thread = 4}).state, State::kWaiting);
}

TEST_F(SharedStateTest, WithoutTurnReplyCountsForEarlierReaders) {
  Read(1);
  Waiter& second = Acquire({.thread = 2, .turn = absl::ZeroDuration()});
  EXPECT_EQ(second.state, State::kWaiting);
  const Request probe = Fetch<RenewRequest>();
  Pass(absl::Microseconds(50));
  Waiter& third = Acquire({.thread = 3, .turn = absl::ZeroDuration()});
  Deliver(probe, HeldWith(0));
  EXPECT_EQ(second.state, State::kGranted);
  EXPECT_EQ(third.state, State::kWaiting);
  Deliver(Fetch<RenewRequest>(), HeldWith(0));
  EXPECT_EQ(third.state, State::kGranted);
}

TEST_F(SharedStateTest, ReaderSentElsewhereForgetsEndedSilence) {
  Read(1);
  Pass(kWindow);
  Waiter& second = Acquire({.thread = 2});
  second.silent_since = now();
  Pass(absl::Milliseconds(1));
  Deliver(Fetch<RenewRequest>(), HeldWith(1));
  EXPECT_EQ(second.state, State::kElsewhere);
  EXPECT_EQ(second.silent_since, base::Instant::Infinite());
}

TEST_F(SharedStateTest, ReadersGoElsewhereIfServerIsUnreachable) {
  Waiter& first = Read(1);
  Pass(kWindow);
  Waiter& second = Acquire({.thread = 2});
  Deliver(Fetch<RenewRequest>(), Silence());
  EXPECT_EQ(second.state, State::kElsewhere);
  EXPECT_TRUE(Valid(first));
}

TEST_F(SharedStateTest, GrantThatIsGoneIsLostByAllReaders) {
  Waiter& first = Read(1);
  Waiter& second = Acquire({.thread = 2, .face = Face::kStd});
  Pass(kWindow);
  Waiter& third = Acquire({.thread = 3});
  Deliver(Fetch<RenewRequest>(), NotHeld());
  EXPECT_EQ(effects().lost.size(), 2);
  EXPECT_FALSE(Valid(first));
  EXPECT_FALSE(Valid(second));
  EXPECT_TRUE(first.view->Lost(now()).stop_requested());
  EXPECT_EQ(Unlock(2).kind, Kind::kLost);
  // The thread that wanted to join asks for a grant of its own.
  EXPECT_EQ(third.state, State::kWaiting);
  Deliver(Fetch<ReleaseRequest>(), NotHeld());
  Deliver(Fetch<AcquireRequest>(), Granted());
  EXPECT_EQ(third.state, State::kGranted);
}

TEST_F(SharedStateTest, GrantLetsInReadersFromBeforeRequest) {
  Waiter& first = Acquire({.thread = 1});
  const auto [second, acquire] = Asked({.thread = 2});
  Pass(kWindow);
  // A writer may be queued between the two.
  EXPECT_EQ(Acquire({.thread = 3}).state, State::kElsewhere);
  Deliver(acquire, Granted(1));
  EXPECT_EQ(first.state, State::kGranted);
  EXPECT_EQ(second.state, State::kGranted);
  EXPECT_NE(first.hold, second.hold);
}

TEST_F(SharedStateTest, LaterReaderWaitsForRequestOfSameTurn) {
  const Waiter& first = Acquire({.thread = 1});
  const Request acquire = Fetch<AcquireRequest>();
  Deliver(acquire, Queued());
  Pass(kWindow - absl::Microseconds(1));
  EXPECT_EQ(Acquire({.thread = 2, .turn = absl::ZeroDuration()}).state, State::kElsewhere);
  EXPECT_EQ(Acquire({.thread = 2, .lease = 2 * kLease}).state, State::kElsewhere);
  const Waiter& second = Acquire({.thread = 2});
  EXPECT_EQ(second.state, State::kWaiting);
  EXPECT_TRUE(Quiet());
  Pass(absl::Microseconds(1));
  EXPECT_EQ(Acquire({.thread = 3}).state, State::kElsewhere);
  DeliverGrant(GrantOf(acquire));
  EXPECT_EQ(first.state, State::kGranted);
  EXPECT_EQ(second.state, State::kGranted);
}

// The turn begins with the first attempt, which has the place in the queue.
TEST_F(SharedStateTest, HeartbeatDoesNotLetLaterReadersWaitForRequest) {
  Answered(Queued(), {.thread = 1});
  Deliver(FetchDue<AcquireRequest>(), Queued());
  EXPECT_EQ(Acquire({.thread = 2}).state, State::kElsewhere);
}

TEST_F(SharedStateTest, JoiningHoldAtRiskDoesNotHideRecovery) {
  Read(1);
  Deliver(FetchDue<RenewRequest>(), Silence());
  EXPECT_THAT(Notices(), ::testing::ElementsAre(Notice::Kind::kAtRisk));
  EXPECT_EQ(Acquire({.thread = 2, .turn = kLease}).state, State::kGranted);
  Pass(kThird / 2);
  Deliver(Fetch<RenewRequest>(), HeldWith(0));
  EXPECT_THAT(Notices(), ::testing::ElementsAre(Notice::Kind::kRecovered));
}

}  // namespace
}  // namespace redlatch::internal
