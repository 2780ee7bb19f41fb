// Waiters of a latch, which have no hold.

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct LatchQueueTest : LockStateTest {
  LatchQueueTest() { Make({.use = GrantUse::kLatch}); }

  Request QueueAll() {
    for (uint64_t thread = 1; thread <= 3; ++thread) {
      waiting_.push_back(&Acquire({.thread = thread}));
    }
    const Request request = Fetch<AcquireRequest>();
    EXPECT_TRUE(Quiet());  // one acquire for all
    Deliver(request, Queued());
    return request;
  }
  void ExpectAllThrough() {
    for (const Waiter* waiter : waiting_) {
      EXPECT_EQ(waiter->state, State::kGranted);
      EXPECT_EQ(waiter->hold, 0U);
      EXPECT_TRUE(Woken(*waiter));
    }
    EXPECT_TRUE(Quiet());
    EXPECT_TRUE(state().idle());
  }

  std::vector<Waiter*> waiting_;
};

TEST_F(LatchQueueTest, MessageReleasesAllWaitersWithoutHold) {
  DeliverGrant(GrantOf(QueueAll(), 0));
  ExpectAllThrough();
}

struct LatchCountsTest : LockStateTest {
  LatchCountsTest() { Make({.use = GrantUse::kLatch}); }

  static Result Telling(uint64_t counts, uint64_t last) {
    Result result = Queued();
    std::get<AcquireQueued>(std::get<AcquireResult>(result.what)).counted = {.counts = counts,
                                                                             .last = last};
    return result;
  }
};

TEST_F(LatchCountsTest, MessageNeedsSecretIdAndRealAttempt) {
  const auto [waiter, first] = Asked();
  Deliver(first, Queued());
  NewGrant news = GrantOf(first, 0);
  ++news.grant;
  DeliverGrant(news);
  EXPECT_TRUE(Quiet());
  Effects effects;
  state().OnAskAgain(news.grant, effects);
  EXPECT_TRUE(effects.wakes.empty());
  news = GrantOf(first, 0);
  ++news.attempt;
  DeliverGrant(news);
  EXPECT_EQ(waiter.state, State::kWaiting);
  Deliver(Fetch<AcquireRequest>(), Queued());
  DeliverGrant(GrantOf(first, 0));
  EXPECT_EQ(waiter.state, State::kWaiting) << "its id was in a message before";
  Deliver(Fetch<AcquireRequest>(), Granted());
  EXPECT_EQ(waiter.state, State::kGranted);
}

TEST_F(LatchCountsTest, WaiterReportsHighestKnownCounts) {
  const Request first = Asked().second;
  EXPECT_EQ(As<AcquireRequest>(first).counted.counts, 0U);
  Deliver(first, Telling(2, 20));
  const Request second = FetchDue<AcquireRequest>();
  EXPECT_EQ(As<AcquireRequest>(second).counted.counts, 2U);
  EXPECT_EQ(As<AcquireRequest>(second).counted.last, 20U);
  Deliver(second, Telling(3, 30));
  Deliver(FetchDue<AcquireRequest>(), Telling(1, 10));  // another server, which has received fewer
  const Request third = FetchDue<AcquireRequest>();
  EXPECT_EQ(As<AcquireRequest>(third).counted.counts, 3U);
  EXPECT_EQ(As<AcquireRequest>(third).counted.last, 30U);
}

}  // namespace
}  // namespace redlatch::internal
