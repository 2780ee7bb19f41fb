// Acquires that are known to be queued before the server says so.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct WillQueueTest : LockStateTest {
  // The lock is released while that many waiters of other clients wait.
  void HandOver(int64_t others) { FetchReleaseOf(Hold({}, others).hold); }
};

// The grant comes first; the reply is read afterwards.
TEST_F(WillQueueTest, ReplyMayComeAfterGrant) {
  HandOver(1);
  const auto [waiter, acquire] = Asked();
  DeliverGrant(GrantOf(acquire));
  ASSERT_EQ(waiter.state, State::kGranted);
  Deliver(acquire, Queued());
  EXPECT_TRUE(Valid(waiter));
  EXPECT_EQ(state().grant_id(), acquire.grant);
}

// The client does not know of the others, but its turn begins as if it did.
TEST_F(WillQueueTest, GrantByMessageStartsTurn) {
  constexpr absl::Duration kTurn = absl::Milliseconds(5);
  HandOver(1);
  Waiter& waiter = Acquire({.turn = kTurn});
  Waiter& other = Acquire({.thread = 2, .turn = kTurn});
  NewGrant news = GrantOf(Fetch<AcquireRequest>());
  news.others = 1;
  DeliverGrant(news);
  Pass(kTurn - absl::Nanoseconds(1));
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kDone);
  EXPECT_EQ(other.state, State::kGranted);
}

}  // namespace
}  // namespace redlatch::internal
