// Bids that are known to be queued before the server says so.
#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

class WillQueueTest : public LockMachineTest {
 protected:
  // The lock goes back, and so many of other clients waited for it.
  void HandOver(int64_t others) {
    Waiter& waiter = Acquire();
    Hear(Fetch<ToAcquire>(), Granted(others));
    ASSERT_EQ(waiter.state, State::kGranted);
    Release(waiter.hold);
    Fetch<ToRelease>();
  }
};

TEST_F(WillQueueTest, TheFirstBidBehindAHandOver) {
  HandOver(1);
  Acquire();
  EXPECT_TRUE(Fetch<ToAcquire>().will_queue);
}

TEST_F(WillQueueTest, NotWhereNobodyWaited) {
  HandOver(0);
  Acquire();
  EXPECT_FALSE(Fetch<ToAcquire>().will_queue);
}

TEST_F(WillQueueTest, NotWhereTheNextMayHaveReleasedItSince) {
  HandOver(1);
  Pass(absl::Microseconds(60));
  Acquire();
  EXPECT_FALSE(Fetch<ToAcquire>().will_queue);
}

TEST_F(WillQueueTest, NotATryWhoseAnswerIsWhatMatters) {
  HandOver(1);
  Acquire({.patience = Patience::kNone});
  EXPECT_FALSE(Fetch<ToAcquire>().will_queue);
}

TEST_F(WillQueueTest, NotARepeat) {
  HandOver(1);
  Acquire();
  Hear(Fetch<ToAcquire>(), Silence());
  PassTo(machine().next_send());
  EXPECT_FALSE(Fetch<ToAcquire>().will_queue);
}

// The grant comes first, and the answer is read afterwards.
TEST_F(WillQueueTest, TheAnswerMayComeBehindTheGrant) {
  HandOver(1);
  Waiter& waiter = Acquire();
  const Send bid = Fetch<ToAcquire>();
  ASSERT_TRUE(HearGrant(GrantOf(bid)));
  ASSERT_EQ(waiter.state, State::kGranted);
  Hear(bid, Queued());
  EXPECT_TRUE(Valid(waiter));
  EXPECT_EQ(machine().grant_id(), bid.grant);
}

}  // namespace
}  // namespace redlatch::engine
