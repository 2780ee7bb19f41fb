#include "redlatch/from_std.h"

#include <chrono>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace redlatch::internal {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using std::chrono::time_point;
using Picoseconds = duration<int64_t, std::pico>;

TEST(FromStdTest, WaitsAreRoundedUpAndNeverNegative) {
  EXPECT_EQ(FromStd(std::chrono::milliseconds(30)), absl::Milliseconds(30));
  EXPECT_EQ(FromStd(duration<double>(1e-10)), absl::Nanoseconds(1));
  EXPECT_EQ(FromStd(Picoseconds(1001)), absl::Nanoseconds(2));
  EXPECT_EQ(FromStd(Picoseconds::max()), absl::Nanoseconds(9'223'372'036'854'776));
  EXPECT_EQ(FromStd(std::chrono::hours(-1)), absl::ZeroDuration());
  EXPECT_EQ(FromStd(std::chrono::hours::min()), absl::ZeroDuration());
}

TEST(FromStdTest, AHundredYearsAreForEver) {
  EXPECT_EQ(FromStd(std::chrono::hours::max()), absl::InfiniteDuration());
  EXPECT_EQ(FromStd(std::chrono::nanoseconds::max()), absl::InfiniteDuration());
  EXPECT_EQ(FromStd(duration<double>(std::numeric_limits<double>::infinity())),
            absl::InfiniteDuration());
}

TEST(FromStdTest, WhatIsNoNumberIsNoWait) {
  EXPECT_EQ(FromStd(duration<double>(std::numeric_limits<double>::quiet_NaN())),
            absl::ZeroDuration());
}

TEST(FromStdTest, DeadlinesMayLieAtTheEndsOfAnyClock) {
  EXPECT_EQ(UntilStd(steady_clock::time_point::max()), absl::InfiniteDuration());
  EXPECT_EQ(UntilStd(steady_clock::time_point::min()), absl::ZeroDuration());
  using Coarse = time_point<system_clock, std::chrono::seconds>;
  EXPECT_EQ(UntilStd(Coarse::max()), absl::InfiniteDuration());
  EXPECT_EQ(UntilStd(Coarse::min()), absl::ZeroDuration());
  EXPECT_EQ(UntilStd(system_clock::now() - std::chrono::hours(1)), absl::ZeroDuration());
  EXPECT_GT(UntilStd(system_clock::now() + std::chrono::hours(1)), absl::Minutes(59));
}

}  // namespace
}  // namespace redlatch::internal
