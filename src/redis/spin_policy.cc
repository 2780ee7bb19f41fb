#include "src/redis/spin_policy.h"

#include <algorithm>

namespace redlatch::redis {
namespace {

constexpr int kMissCost = 4;
constexpr int kNearMissCost = 1;
constexpr int kNear = 3;  // times the spin's length
constexpr uint32_t kTryAgainEvery = 64;
// Two tries in a row: the first often finds the server's processor asleep.
constexpr int kTrialCredit = 2 * kMissCost;
// A crowd of commands is answered later than one, and its threads take turns meanwhile.
constexpr absl::Duration kForEachInCrowd = absl::Microseconds(2);

}  // namespace

absl::Duration SpinPolicy::Length() const {
  const size_t crowd = crowd_.load(std::memory_order_relaxed);
  return crowd > 1 ? base_ + kForEachInCrowd * static_cast<int64_t>(crowd) : base_;
}

absl::Duration SpinPolicy::Begin() {
  if (base_ <= absl::ZeroDuration()) return absl::ZeroDuration();
  if (credit_.load(std::memory_order_relaxed) == 0) {
    if (++turn_ % kTryAgainEvery != 0) return absl::ZeroDuration();
    credit_.store(kTrialCredit, std::memory_order_relaxed);
  }
  return Length();
}

void SpinPolicy::Caught() {
  const int credit = credit_.load(std::memory_order_relaxed);
  if (credit < kMostCredit) credit_.store(credit + 1, std::memory_order_relaxed);
}

void SpinPolicy::Missed(absl::Duration waited) {
  const int cost = waited < kNear * Length() ? kNearMissCost : kMissCost;
  credit_.store(std::max(credit_.load(std::memory_order_relaxed) - cost, 0),
                std::memory_order_relaxed);
}

absl::Duration SpinPolicy::ForFollower() const {
  return credit_.load(std::memory_order_relaxed) > 0 ? Length() : absl::ZeroDuration();
}

}  // namespace redlatch::redis
