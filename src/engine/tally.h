#ifndef REDLATCH_SRC_ENGINE_TALLY_H_
#define REDLATCH_SRC_ENGINE_TALLY_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "redlatch/stats.h"
#include "src/base/clock.h"

namespace redlatch::engine {

// What a machine has counted: no more than what cannot be told from the rest. Adding to it costs a
// few instructions: it is done on the way of every acquisition.
struct Tally {
  class Durations {
   public:
    void Add(base::Instant from, base::Instant to) {
      const auto nanos = static_cast<uint64_t>(std::max<int64_t>(to.nanos() - from.nanos(), 1));
      nanos_ += nanos;
      // The last nanosecond that a bucket has is its bound.
      const auto bucket = static_cast<size_t>(std::bit_width((nanos - 1) / 1000));
      ++buckets_[std::min(bucket, buckets_.size() - 1)];
    }
    void AddTo(DurationHistogram& histogram) const;

   private:
    uint64_t nanos_ = 0;
    std::array<uint64_t, DurationHistogram::kBuckets> buckets_ = {};
  };

  Durations waited;    // of grants to a thread, and of waits for a latch that opened
  Durations held_for;  // of all holds that ended
  uint64_t granted = 0;  // by the server
  uint64_t opened = 0;
  uint64_t busy = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t releases_failed = 0;
  uint64_t lost = 0;
  uint64_t renewed = 0;
  uint64_t renewals_failed = 0;
  uint64_t misused = 0;

  // Counts come to what they mean, and are added.
  void AddTo(LockStats& stats) const;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_TALLY_H_
