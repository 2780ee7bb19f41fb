#include "src/base/worker.h"

#include <gtest/gtest.h>

#include <atomic>

#include "src/base/clock.h"
#include "src/base/parker.h"

namespace redlatch::base {
namespace {

TEST(Worker, WorksAtTheStartAndWhenDue) {
  std::atomic<int> turns{0};
  Parker third;
  Worker worker("test", [&] {
    if (++turns == 3) third.Set(1);
    return turns < 3 ? Now() : Instant::Infinite();
  });
  EXPECT_FALSE(worker.started());
  ASSERT_TRUE(worker.Start());
  EXPECT_EQ(third.ParkUntil(Instant::Infinite()), 1U);
  EXPECT_TRUE(worker.Stop());
  EXPECT_EQ(turns, 3);
}

TEST(Worker, WorksAgainIfWokenMeanwhile) {
  Parker second;
  std::atomic<int> turns{0};
  Worker* its = nullptr;
  Worker worker("test", [&] {
    ++turns == 1 ? its->Wake() : second.Set(1);
    return Instant::Infinite();
  });
  its = &worker;
  worker.Wake();
  EXPECT_EQ(second.ParkUntil(Instant::Infinite()), 1U);
}

TEST(Worker, DoesNotWorkAfterStop) {
  std::atomic<int> turns{0};
  Worker worker("test", [&] {
    ++turns;
    return Instant::Infinite();
  });
  EXPECT_FALSE(worker.Stop());
  EXPECT_TRUE(worker.Start());
  worker.Wake();
  EXPECT_EQ(turns, 0);
}

}  // namespace
}  // namespace redlatch::base
