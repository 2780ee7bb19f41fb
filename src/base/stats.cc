#include "redlatch/stats.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace redlatch {

absl::Duration DurationHistogram::Bound(int bucket) {
  if (bucket >= kBuckets - 1) return absl::InfiniteDuration();
  return absl::Microseconds(int64_t{1} << bucket);
}

uint64_t DurationHistogram::count() const {
  return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
}

absl::Duration DurationHistogram::Mean() const {
  const uint64_t all = count();
  return all == 0 ? absl::ZeroDuration() : sum / static_cast<double>(all);
}

absl::Duration DurationHistogram::Quantile(double share) const {
  const double rank = std::clamp(share, 0.0, 1.0) * static_cast<double>(count());
  double below = 0;
  absl::Duration lower = absl::ZeroDuration();
  for (int i = 0; i < kBuckets - 1; ++i) {
    const auto here = static_cast<double>(buckets[static_cast<size_t>(i)]);
    const absl::Duration upper = Bound(i);
    if (here > 0 && rank <= below + here) return lower + (upper - lower) * ((rank - below) / here);
    below += here;
    lower = upper;
  }
  return count() == 0 ? absl::ZeroDuration() : lower;
}

DurationHistogram& DurationHistogram::operator+=(const DurationHistogram& other) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  sum += other.sum;
  return *this;
}

LockStats& LockStats::operator+=(const LockStats& other) {
  for (uint64_t LockStats::*const number :
       {&LockStats::acquired, &LockStats::passed_on, &LockStats::opened, &LockStats::busy,
        &LockStats::cancelled, &LockStats::failed, &LockStats::released,
        &LockStats::releases_failed, &LockStats::lost, &LockStats::renewed,
        &LockStats::renewals_failed, &LockStats::misused, &LockStats::held, &LockStats::permits,
        &LockStats::releasing, &LockStats::waiting}) {
    this->*number += other.*number;
  }
  waited += other.waited;
  held_for += other.held_for;
  return *this;
}

}  // namespace redlatch
