#include "tests/redisson/redisson_testing.h"

namespace redlatch {
namespace {

struct RedissonLatch : RedissonTest {
  std::string JavaCount() { return java().Do("1", "latch.getCount", "import"); }
};

TEST_F(RedissonLatch, CountsOfBothLanguagesAddUp) {
  redisson::CountDownLatch latch(client(), "import");
  const auto set = Must(latch.TrySetCount(4));
  EXPECT_TRUE(set);
  EXPECT_EQ(java().Do("1", "latch.trySetCount", "import", 9), "false");
  EXPECT_EQ(JavaCount(), "4");
  EXPECT_TRUE(latch.CountDown().ok());
  EXPECT_EQ(java().Do("1", "latch.countDown", "import"), "");
  EXPECT_EQ(latch.Count().value_or(-1), 2);
  EXPECT_FALSE(latch.try_wait());
  EXPECT_EQ(java().Do("1", "latch.tryAwait", "import", 50), "false");
  EXPECT_TRUE(latch.CountDown(2).ok());
  EXPECT_EQ(JavaCount(), "0");
  EXPECT_TRUE(latch.try_wait());
  EXPECT_EQ(java().Do("1", "latch.tryAwait", "import", 0), "true");
  EXPECT_EQ(java().Do("1", "latch.trySetCount", "import", 2), "true") << "open ones may be set";
  EXPECT_FALSE(latch.try_wait());
}

TEST_F(RedissonLatch, LastJavaCountWakesWaiter) {
  ASSERT_EQ(java().Do("1", "latch.trySetCount", "import", 1), "true");
  redisson::CountDownLatch latch(client(), "import");
  auto waiter = InThread([&latch] { return latch.Wait({.wait = kLong}); });
  ASSERT_TRUE(AwaitWaiters(server(), "latch", "import", 1));
  const absl::Duration took = TimeOf([&] {
    EXPECT_EQ(java().Do("1", "latch.countDown", "import"), "");
    EXPECT_TRUE(waiter.get().ok());
  });
  EXPECT_LT(took, kSoon);
}

TEST_F(RedissonLatch, LastCountWakesJavaWaiter) {
  redisson::CountDownLatch latch(client(), "import");
  ASSERT_TRUE(latch.TrySetCount(2).value_or(false));
  const PendingReply waiter = java().Send("1", "latch.await", "import");
  ASSERT_TRUE(AwaitWaiters(server(), "latch", "import", 1));
  EXPECT_TRUE(latch.CountDown().ok());
  EXPECT_FALSE(waiter.done());
  EXPECT_TRUE(latch.CountDown().ok());
  EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
}

}  // namespace
}  // namespace redlatch
