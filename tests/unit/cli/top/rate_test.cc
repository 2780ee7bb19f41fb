#include "src/cli/top/rate.h"

#include "tests/support/testing.h"

namespace redlatch::cli {
namespace {

constexpr int64_t kStart = 1'700'000'000'000'000;

struct RateTest : ::testing::Test {
  // Reads the fence `count` times, every 100 ms. `last_grant` returns the time of the last grant
  // before a reading; both are in microseconds since the start.
  template <class LastGrantBefore>
  void Read(int count, const LastGrantBefore& last_grant) {
    for (int i = 0; i < count; ++i) {
      now_us_ += 100'000;
      rate_.Take({.token = kStart + last_grant(now_us_), .now_us = kStart + now_us_},
                 base::Instant() + absl::Microseconds(now_us_ + 1));
    }
  }
  // The lock is granted every `period` microseconds.
  void ReadLockOf(int64_t period, int count) {
    Read(count, [period](int64_t now) { return now - now % period; });
  }

  Rate rate_;
  int64_t now_us_ = 10'000'000;
};

TEST_F(RateTest, IsUnknownBeforeSecondReading) {
  EXPECT_EQ(rate_.PerSecond(), -1);
  ReadLockOf(1'000'000, 1);
  EXPECT_EQ(rate_.PerSecond(), -1);
  ReadLockOf(1'000'000, 1);
  EXPECT_EQ(rate_.PerSecond(), 0);
}

TEST_F(RateTest, CountsGrantsOfSlowLock) {
  ReadLockOf(500'000, 101);  // 10 s
  EXPECT_NEAR(rate_.PerSecond(), 2, 0.01);
}

// There are far more grants than readings.
TEST_F(RateTest, AgesOfGrantsTellRateOfFastLock) {
  ReadLockOf(1'937, 201);
  EXPECT_NEAR(rate_.PerSecond(), 1e6 / 1'937, 50);
}

TEST_F(RateTest, IdleLockHasRateOfZero) {
  Read(50, [](int64_t) { return 5; });
  EXPECT_EQ(rate_.PerSecond(), 0);
}

// The client has reserved tokens that are ahead of the clock, so the ages say nothing.
TEST_F(RateTest, AgesOfReservedTokensDoNotCount) {
  Read(101, [](int64_t now) { return now - now % 90'000 + 50'000; });
  EXPECT_NEAR(rate_.PerSecond(), 10, 0.01);
}

TEST_F(RateTest, FailedReadingChangesNothing) {
  ReadLockOf(500'000, 101);
  const double before = rate_.PerSecond();
  rate_.Take({.token = 0, .now_us = kStart}, base::Instant());
  rate_.Take({.token = kStart, .now_us = 0}, base::Instant());
  EXPECT_EQ(rate_.PerSecond(), before);
}

TEST_F(RateTest, FollowsChangeWithinFewLists) {
  ReadLockOf(200'000, 101);
  EXPECT_NEAR(rate_.PerSecond(), 5, 0.1);
  for (int list = 0; list < 10; ++list) {  // top ages it with each list, every second
    rate_.Age();
    Read(10, [](int64_t) { return 20'000'000; });
  }
  EXPECT_LT(rate_.PerSecond(), 0.5);
}

}  // namespace
}  // namespace redlatch::cli
