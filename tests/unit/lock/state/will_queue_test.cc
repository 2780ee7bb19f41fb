// Acquires that are known to be queued before the server says so.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct WillQueueTest : LockStateTest {
  // The lock is released while that many waiters of other clients wait.
  void HandOver(int64_t others) { FetchReleaseOf(Hold({}, others).hold); }
};

TEST_F(WillQueueTest, ReplyMayStayUnreadForTwiceUsualWait) {
  const auto [waiter, acquire] = Asked();
  Deliver(acquire, Queued());
  Pass(absl::Microseconds(400));
  NewGrant news = GrantOf(acquire);
  news.others = 1;
  DeliverGrant(news);
  FetchReleaseOf(waiter.hold);
  Acquire();
  EXPECT_EQ(Fetch<AcquireRequest>().unread_for, absl::Microseconds(800));
}

TEST_F(WillQueueTest, OnlyFirstRequestSoonAfterHandover) {
  struct Case {
    int64_t others = 1;
    absl::Duration later = absl::ZeroDuration();
    WaitLimit wait_limit = WaitLimit::kEndless;
    bool repeats = false;
    absl::Duration unread_for = absl::ZeroDuration();
  };
  for (const Case& c : {Case{.unread_for = absl::Microseconds(200)}, Case{.others = 0},
                        Case{.later = absl::Microseconds(60)}, Case{.wait_limit = WaitLimit::kNone},
                        Case{.repeats = true}}) {
    Make({});
    HandOver(c.others);
    Pass(c.later);
    Acquire({.wait_limit = c.wait_limit});
    if (c.repeats) {
      Deliver(Fetch<AcquireRequest>(), Silence());
      PassTo(state().next_request_at());
    }
    EXPECT_EQ(Fetch<AcquireRequest>().unread_for, c.unread_for);
  }
}

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
