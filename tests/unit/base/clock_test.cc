#include "src/base/clock.h"

#include <time.h>

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

Instant At(int64_t nanos) { return Instant::FromNanos(nanos); }

TEST(ClockTest, IsBootClockAndNeverGoesBack) {
  Instant last = Now();
  for (int i = 0; i < 1000; ++i) {
    timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    const Instant now = Now();
    EXPECT_GE(now, last);
    EXPECT_GE(now.nanos(), boot.tv_sec * int64_t{1'000'000'000} + boot.tv_nsec);
    last = now;
  }
}

TEST(ClockTest, ArithmeticSaturatesAndInfiniteStaysInfinite) {
  EXPECT_EQ(At(1) + absl::InfiniteDuration(), Instant::Infinite());
  EXPECT_EQ(At(-1) + absl::InfiniteDuration(), Instant::Infinite());
  EXPECT_EQ(At(kMax - 1) + absl::Nanoseconds(5), Instant::Infinite());
  EXPECT_EQ(At(1) + absl::Hours(24 * 365 * 1000), Instant::Infinite());
  EXPECT_EQ(At(kMin + 1) - absl::Nanoseconds(5), At(kMin));
  EXPECT_EQ(At(-1) - absl::InfiniteDuration(), At(kMin));
  EXPECT_EQ(At(kMax - 5) + absl::Nanoseconds(4), At(kMax - 1));
  EXPECT_EQ(Instant::Infinite() + absl::Hours(1), Instant::Infinite());
  EXPECT_EQ(Instant::Infinite() - absl::Hours(1), Instant::Infinite());
  EXPECT_EQ(Instant::Infinite() - absl::InfiniteDuration(), Instant::Infinite());
  EXPECT_EQ(Instant::Infinite() - At(5), absl::InfiniteDuration());
  EXPECT_EQ(At(5) - Instant::Infinite(), -absl::InfiniteDuration());
  EXPECT_EQ(Instant::Infinite() - Instant::Infinite(), absl::ZeroDuration());
  EXPECT_EQ(At(kMax - 1) - At(kMin), absl::Nanoseconds(kMax - 1) - absl::Nanoseconds(kMin));
}

TEST(ClockTest, UntilIsRemainingTimeAndNeverNegative) {
  EXPECT_EQ(Until(At(0)), absl::ZeroDuration());
  EXPECT_EQ(Until(At(kMin)), absl::ZeroDuration());
  EXPECT_EQ(Until(Now() - absl::Nanoseconds(1)), absl::ZeroDuration());
  EXPECT_EQ(Until(Instant::Infinite()), absl::InfiniteDuration());
  const absl::Duration left = Until(Now() + absl::Hours(1));
  EXPECT_LE(left, absl::Hours(1));
  EXPECT_GT(left, absl::Minutes(59));
}

TEST(ClockTest, PollTimeoutIsRoundedUp) {
  for (const absl::Duration d :
       {absl::Microseconds(10'001), absl::Microseconds(10'999), absl::Milliseconds(11)}) {
    for (int i = 0; i < 100; ++i) {
      const Instant deadline = Now() + d;
      const int timeout = PollTimeout(deadline);
      EXPECT_GE(absl::Milliseconds(timeout), Until(deadline));
      EXPECT_LE(timeout, 11);
    }
  }
}

TEST(ClockTest, PollSleepsUntilItsDeadlineInSeveralSleeps) {
  const Instant deadline = Now() + kLongestSleep + absl::Milliseconds(1);
  EXPECT_EQ(Poll(nullptr, 0, deadline), 0);
  EXPECT_GE(Now(), deadline);
}

TEST(ClockTest, PollTimeoutIsLimitedToLongestSleepOrInfinite) {
  EXPECT_EQ(PollTimeout(Instant::Infinite()), -1);
  EXPECT_EQ(PollTimeout(Now() + absl::InfiniteDuration()), -1);
  EXPECT_EQ(absl::Milliseconds(PollTimeout(At(kMax - 1))), kLongestSleep);
  EXPECT_EQ(absl::Milliseconds(PollTimeout(Now() + absl::Hours(24 * 365))), kLongestSleep);
}

}  // namespace
}  // namespace redlatch::base
