
#include <cstddef>

#include "redlatch/stats.h"
#include "src/base/clock.h"
#include "src/engine/machine/tally.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

constexpr int kLast = DurationHistogram::kBuckets - 1;

DurationHistogram Of(std::initializer_list<absl::Duration> durations) {
  engine::Tally::Durations<uint16_t> counted;
  const base::Instant from = base::Instant::FromNanos(int64_t{1} << 40);
  for (const absl::Duration each : durations) counted.Add(from, from + each);
  DurationHistogram histogram;
  counted.AddTo(histogram);
  return histogram;
}

int BucketOf(absl::Duration duration) {
  const DurationHistogram histogram = Of({duration});
  EXPECT_EQ(histogram.count(), 1);
  for (int i = 0; i <= kLast; ++i) {
    if (histogram.buckets[static_cast<size_t>(i)] == 1) return i;
  }
  return -1;
}

TEST(DurationHistogram, BoundsDoubleFromAMicrosecondToEighteenMinutes) {
  EXPECT_EQ(DurationHistogram::Bound(0), absl::Microseconds(1));
  EXPECT_EQ(DurationHistogram::Bound(1), absl::Microseconds(2));
  EXPECT_GT(DurationHistogram::Bound(kLast - 1), absl::Seconds(1000));
  EXPECT_EQ(DurationHistogram::Bound(kLast), absl::InfiniteDuration());
  for (int i = 1; i < kLast; ++i) {
    EXPECT_EQ(DurationHistogram::Bound(i), 2 * DurationHistogram::Bound(i - 1));
  }
}

TEST(DurationHistogram, BucketHasItsBoundAndNothingAbove) {
  for (int i = 0; i < kLast; ++i) {
    const absl::Duration bound = DurationHistogram::Bound(i);
    EXPECT_EQ(BucketOf(bound), i);
    EXPECT_EQ(BucketOf(bound + absl::Nanoseconds(1)), i + 1);
  }
}

TEST(DurationHistogram, NothingAndLessAreInTheFirstBucket) {
  EXPECT_EQ(BucketOf(absl::ZeroDuration()), 0);
  EXPECT_EQ(BucketOf(-absl::Seconds(1)), 0);
  EXPECT_EQ(Of({-absl::Seconds(1)}).sum, absl::ZeroDuration());
}

TEST(DurationHistogram, SumAndMeanAreExact) {
  const DurationHistogram histogram = Of({absl::Nanoseconds(7), absl::Seconds(2), absl::Hours(3)});
  EXPECT_EQ(histogram.count(), 3);
  EXPECT_EQ(histogram.sum, absl::Nanoseconds(7) + absl::Seconds(2) + absl::Hours(3));
  EXPECT_EQ(Of({absl::Seconds(1), absl::Seconds(3)}).Mean(), absl::Seconds(2));
}

TEST(DurationHistogram, BucketsCountFurtherThanTheirNumbersReach) {
  engine::Tally::Durations<uint8_t> counted;
  const base::Instant from;
  for (int i = 0; i < 1000; ++i) counted.Add(from, from + absl::Microseconds(3));
  for (int i = 0; i < 256; ++i) counted.Add(from, from + absl::Hours(1));
  DurationHistogram histogram;
  counted.AddTo(histogram);
  EXPECT_EQ(histogram.buckets[2], 1000);
  EXPECT_EQ(histogram.buckets[kLast], 256);
  EXPECT_EQ(histogram.count(), 1256);
  EXPECT_EQ(histogram.sum, 1000 * absl::Microseconds(3) + 256 * absl::Hours(1));
}

TEST(DurationHistogram, EmptyOneHasZeroForEverything) {
  const DurationHistogram empty;
  EXPECT_EQ(empty.count(), 0);
  EXPECT_EQ(empty.Mean(), absl::ZeroDuration());
  EXPECT_EQ(empty.Quantile(0.5), absl::ZeroDuration());
  EXPECT_EQ(empty.Quantile(1), absl::ZeroDuration());
}

TEST(DurationHistogram, QuantileLiesByItsRankInTheBucket) {
  DurationHistogram histogram;
  histogram.buckets[3] = 4;  // above 4 µs, up to 8 µs
  EXPECT_EQ(histogram.Quantile(0.25), absl::Microseconds(5));
  EXPECT_EQ(histogram.Quantile(0.5), absl::Microseconds(6));
  EXPECT_EQ(histogram.Quantile(1), absl::Microseconds(8));
  EXPECT_EQ(histogram.Quantile(2), absl::Microseconds(8));
  EXPECT_EQ(Of({absl::Hours(24)}).Quantile(0.5), DurationHistogram::Bound(kLast - 1));
}

TEST(DurationHistogram, AddsUp) {
  DurationHistogram sum = Of({absl::Microseconds(1), absl::Seconds(5)});
  sum += Of({absl::Seconds(5), absl::Hours(1)});
  EXPECT_EQ(
      sum.buckets,
      Of({absl::Microseconds(1), absl::Seconds(5), absl::Seconds(5), absl::Hours(1)}).buckets);
  EXPECT_EQ(sum.sum, absl::Hours(1) + absl::Seconds(10) + absl::Microseconds(1));
}

TEST(LockStats, AddUpAllButTheName) {
  LockStats one;
  const std::vector<uint64_t LockStats::*> numbers = {
      &LockStats::acquired, &LockStats::passed_on,       &LockStats::opened,
      &LockStats::busy,     &LockStats::cancelled,       &LockStats::failed,
      &LockStats::released, &LockStats::releases_failed, &LockStats::lost,
      &LockStats::renewed,  &LockStats::renewals_failed, &LockStats::misused,
      &LockStats::held,     &LockStats::permits,         &LockStats::releasing,
      &LockStats::waiting};
  for (size_t i = 0; i < numbers.size(); ++i) one.*numbers[i] = i + 1;
  one.name = "one";
  one.waited = Of({absl::Seconds(1)});
  one.held_for = Of({absl::Seconds(2), absl::Seconds(3)});
  LockStats sum;
  sum += one;
  sum += one;
  EXPECT_EQ(sum.name, "");
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(sum.*numbers[i], 2 * (i + 1));
  EXPECT_EQ(sum.waited.count(), 2);
  EXPECT_EQ(sum.held_for.count(), 4);
}

}  // namespace
}  // namespace redlatch
