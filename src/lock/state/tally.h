#ifndef REDLATCH_SRC_LOCK_STATE_TALLY_H_
#define REDLATCH_SRC_LOCK_STATE_TALLY_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "redlatch/stats.h"
#include "src/base/clock.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// The counts of a lock state that cannot be derived from others. Each acquisition updates them, so
// an update costs only a few instructions.
struct Tally {
  // A full bucket restarts from zero and is counted separately, which keeps buckets small: a client
  // may have very many locks, and few are taken that often.
  template <class Count>
  class Durations {
   public:
    void Add(base::Instant from, base::Instant to) {
      const auto nanos = static_cast<uint64_t>(std::max<int64_t>(to.nanos() - from.nanos(), 0));
      nanos_ += nanos;
      // A bucket includes its bound.
      const auto bucket = static_cast<size_t>(std::bit_width((nanos - (nanos > 0)) / 1000));
      Increment(std::min(bucket, buckets_.size() - 1));
    }
    void AddTo(DurationHistogram& histogram) const {
      for (size_t i = 0; i < buckets_.size(); ++i) histogram.buckets[i] += buckets_[i];
      if (full_ != nullptr) {
        for (size_t i = 0; i < full_->size(); ++i) histogram.buckets[i] += (*full_)[i] * kFull;
      }
      histogram.sum += absl::Nanoseconds(nanos_);
    }

   private:
    static constexpr size_t kBuckets = DurationHistogram::kBuckets;
    static constexpr uint64_t kFull = uint64_t{std::numeric_limits<Count>::max()} + 1;

    void Increment(size_t bucket) {
      if (++buckets_[bucket] == 0) [[unlikely]]
        NoteFull(bucket);
    }
    // Not inline, so that its caller is.
    [[gnu::noinline]] void NoteFull(size_t bucket) {
      if (full_ == nullptr) full_ = std::make_unique<std::array<uint64_t, kBuckets>>();
      ++(*full_)[bucket];
    }

    uint64_t nanos_ = 0;
    std::array<Count, kBuckets> buckets_ = {};
    std::unique_ptr<std::array<uint64_t, kBuckets>> full_;  // null if no bucket was ever full
  };

  Durations<uint16_t> waited;    // for grants to threads, and for latches that opened
  Durations<uint16_t> held_for;  // of all holds that ended
  uint64_t granted = 0;          // by the server
  uint64_t opened = 0;
  uint64_t busy = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t lost = 0;
  uint64_t renewed = 0;
  uint64_t renewals_failed = 0;
  uint64_t misused = 0;

  // Counts the end of a call without a hold.
  void CountEnd(Waiter::State state) {
    busy += state == Waiter::State::kBusy ? 1 : 0;
    cancelled += state == Waiter::State::kStopped ? 1 : 0;
    failed += state == Waiter::State::kFailed || state == Waiter::State::kDeadlock ? 1 : 0;
  }
  // Adds the counts to `stats`. Holds that are being released count as released.
  void AddTo(LockStats& stats, uint64_t releases_failed) const {
    LockStats counted{.opened = opened,
                      .busy = busy,
                      .cancelled = cancelled,
                      .failed = failed,
                      .releases_failed = releases_failed,
                      .lost = lost,
                      .renewed = renewed,
                      .renewals_failed = renewals_failed,
                      .misused = misused};
    waited.AddTo(counted.waited);
    held_for.AddTo(counted.held_for);
    counted.acquired = counted.waited.count() - opened;
    counted.passed_on = counted.acquired - granted;
    counted.released = counted.held_for.count() - lost - releases_failed;
    stats += counted;
  }
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_TALLY_H_
