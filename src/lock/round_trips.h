#ifndef REDLATCH_SRC_LOCK_ROUND_TRIPS_H_
#define REDLATCH_SRC_LOCK_ROUND_TRIPS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {

// The latest round trips of a client, from which it derives the length of its claims. Thread-safe;
// a lost update does no harm.
class RoundTrips {
 public:
  void Add(absl::Duration round_trip) {
    const uint32_t at = next_.fetch_add(1, std::memory_order_relaxed) % kKept;
    latest_[at].store(absl::ToInt64Milliseconds(round_trip), std::memory_order_relaxed);
  }

  // How long a handover by message makes this client the owner: long enough to confirm it, even
  // over a slow link.
  absl::Duration Claim() const {
    int64_t longest = 0;
    for (const auto& each : latest_) {
      longest = std::max(longest, each.load(std::memory_order_relaxed));
    }
    return std::max(kShortestClaim, absl::Milliseconds(4 * longest));
  }

 private:
  static constexpr size_t kKept = 8;

  std::atomic<uint32_t> next_{0};
  std::array<std::atomic<int64_t>, kKept> latest_{};
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ROUND_TRIPS_H_
