// Those who wait for a latch, where nothing is held.

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

class LatchQueueTest : public LatchMachineTest {
 protected:
  LatchQueueTest() { Make({.sharing = kLatch}); }

  Request QueueAll() {
    for (uint64_t thread = 1; thread <= 3; ++thread) {
      waiting_.push_back(&Acquire({.thread = thread}));
    }
    const Request request = Fetch<ToAcquire>();
    EXPECT_TRUE(Quiet());  // one bid for all
    Hear(request, Queued());
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

TEST_F(LatchQueueTest, AMessageLetsAllThroughAndNothingIsHeld) {
  HearGrant(GrantOf(QueueAll(), 0));
  ExpectAllThrough();
}

class LatchToldTest : public LatchMachineTest {
 protected:
  LatchToldTest() { Make({.sharing = kLatch}); }

  static Result Telling(uint64_t counts, uint64_t last) {
    Result result = Queued();
    std::get<AcquireQueued>(std::get<AcquireResult>(result.what)).told = {.counts = counts,
                                                                          .last = last};
    return result;
  }
};

TEST_F(LatchToldTest, MessageOpensItOnlyWithTheSecretIdAndARealAttempt) {
  Waiter& waiter = Acquire();
  const Request first = Fetch<ToAcquire>();
  Hear(first, Queued());
  NewGrant news = GrantOf(first, 0);
  ++news.grant;
  HearGrant(news);
  EXPECT_TRUE(Quiet());
  Effects effects;
  state().OnAskAgain(news.grant, effects);
  EXPECT_TRUE(effects.wakes.empty());
  news = GrantOf(first, 0);
  ++news.attempt;
  HearGrant(news);
  EXPECT_EQ(waiter.state, State::kWaiting);
  Hear(Fetch<ToAcquire>(), Queued());
  HearGrant(GrantOf(first, 0));
  EXPECT_EQ(waiter.state, State::kWaiting) << "its id was in a message before";
  Hear(Fetch<ToAcquire>(), Granted());
  EXPECT_EQ(waiter.state, State::kGranted);
}

TEST_F(LatchToldTest, WhoeverWaitsForALatchTellsBackTheMostThatItWasTold) {
  Acquire();
  const Request first = Fetch<ToAcquire>();
  EXPECT_EQ(As<ToAcquire>(first).told.counts, 0U);
  Hear(first, Telling(2, 20));
  Pass(kThird);
  const Request second = Fetch<ToAcquire>();
  EXPECT_EQ(As<ToAcquire>(second).told.counts, 2U);
  EXPECT_EQ(As<ToAcquire>(second).told.last, 20U);
  Hear(second, Telling(3, 30));
  Pass(kThird);
  Hear(Fetch<ToAcquire>(), Telling(1, 10));  // another server, which has received fewer
  Pass(kThird);
  const Request third = Fetch<ToAcquire>();
  EXPECT_EQ(As<ToAcquire>(third).told.counts, 3U);
  EXPECT_EQ(As<ToAcquire>(third).told.last, 30U);
}

}  // namespace
}  // namespace redlatch::internal
