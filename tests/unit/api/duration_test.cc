#include "redlatch/duration.h"

#include "redlatch/internal/try_until.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using std::chrono::time_point;
using Picoseconds = duration<int64_t, std::pico>;

absl::Duration Of(Duration value) { return value; }

TEST(Duration, StdDurationIsRoundedUpToNanoseconds) {
  EXPECT_EQ(Of(std::chrono::milliseconds(30)), absl::Milliseconds(30));
  EXPECT_EQ(Of(duration<double>(1e-10)), absl::Nanoseconds(1));
  EXPECT_EQ(Of(Picoseconds(1001)), absl::Nanoseconds(2));
  EXPECT_EQ(Of(Picoseconds::max()), absl::Nanoseconds(9'223'372'036'854'776));
  EXPECT_EQ(Of(std::chrono::hours(-1)), absl::Hours(-1));
  EXPECT_EQ(Of(std::chrono::hours::min()), -absl::InfiniteDuration());
}

TEST(Duration, HundredYearsAreInfinite) {
  EXPECT_EQ(Of(std::chrono::hours::max()), absl::InfiniteDuration());
  EXPECT_EQ(Of(std::chrono::nanoseconds::max()), absl::InfiniteDuration());
  EXPECT_EQ(Of(duration<double>(std::numeric_limits<double>::infinity())),
            absl::InfiniteDuration());
}

TEST(Duration, NotANumberIsZero) {
  EXPECT_EQ(Of(duration<double>(std::numeric_limits<double>::quiet_NaN())), absl::ZeroDuration());
}

TEST(TryUntil, AcceptsLimitsOfAnyClock) {
  EXPECT_EQ(Until(steady_clock::time_point::max()), absl::InfiniteDuration());
  EXPECT_EQ(Until(steady_clock::time_point::min()), absl::ZeroDuration());
  using Coarse = time_point<system_clock, std::chrono::seconds>;
  EXPECT_EQ(Until(Coarse::max()), absl::InfiniteDuration());
  EXPECT_EQ(Until(Coarse::min()), absl::ZeroDuration());
  EXPECT_EQ(Until(system_clock::now() - std::chrono::hours(1)), absl::ZeroDuration());
  EXPECT_GT(Until(system_clock::now() + std::chrono::hours(1)), absl::Minutes(59));
}

// A clock that advances by a second at each reading.
struct TickingClock {
  using duration = std::chrono::seconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<TickingClock>;
  static constexpr bool is_steady = true;
  static time_point now() {
    static int64_t ticks = 0;
    return time_point(duration(++ticks));
  }
};

TEST(TryUntil, ContinuesUntilItsClockReachesTheDeadline) {
  std::vector<absl::Duration> waits;
  EXPECT_FALSE(TryUntil(TickingClock::now() + std::chrono::seconds(4), [&](absl::Duration left) {
    waits.push_back(left);
    return false;
  }));
  EXPECT_EQ(waits, (std::vector{absl::Seconds(3), absl::Seconds(2), absl::Seconds(1)}));
}

TEST(TryUntil, EndsWithSuccessOrRefusal) {
  for (const std::optional<bool> outcome : {std::optional<bool>(true), std::optional<bool>()}) {
    int tries = 0;
    const bool taken = TryUntil(TickingClock::now() + std::chrono::hours(1), [&](absl::Duration) {
      ++tries;
      return outcome;
    });
    EXPECT_EQ(taken, outcome.has_value());
    EXPECT_EQ(tries, 1);
  }
}

}  // namespace
}  // namespace redlatch::internal
