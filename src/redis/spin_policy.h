#ifndef REDLATCH_SRC_REDIS_SPIN_POLICY_H_
#define REDLATCH_SRC_REDIS_SPIN_POLICY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace redlatch::redis {

// Whether a thread that waits for a reply reads again and again for a moment before it sleeps.
//
// Spinning saves the wake-up, most of a short round trip, and costs processor time, so it has to
// pay: each reply that it catches is worth one more try, a near miss costs one, any other several.
// Without credit it is tried now and then whether the server has become quick.
//
// The leader of a channel keeps the accounts; any thread may ask ForFollower() and crowded().
class SpinPolicy {
 public:
  explicit SpinPolicy(absl::Duration base) : base_(base) {}

  // For one wait of the leader: how long to spin; zero: not at all.
  absl::Duration Begin();
  void Caught();
  // The spin was for nothing; in all the reply took `waited`.
  void Missed(absl::Duration waited);

  // So many replies came with one read: as many threads use the channel at once.
  void SetCrowd(size_t replies) { crowd_.store(replies, std::memory_order_relaxed); }
  bool crowded() const { return crowd_.load(std::memory_order_relaxed) > 1; }

  absl::Duration ForFollower() const;

 private:
  absl::Duration Length() const;

  const absl::Duration base_;
  std::atomic<int> credit_{kMostCredit};
  std::atomic<size_t> crowd_{0};
  uint32_t turn_ = 0;

  static constexpr int kMostCredit = 16;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SPIN_POLICY_H_
