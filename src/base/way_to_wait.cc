#include "src/base/way_to_wait.h"

#include <algorithm>
#include <utility>

namespace redlatch::base {
namespace {

constexpr int kMostDoublings = 64;
constexpr double kOutlier = 16;  // times the average; what is longer counts as so long
constexpr double kMustPay = 0.9;
constexpr double kDrift = 2;  // times what it was: the world has changed, probe at once

}  // namespace

void WayToWait::Take(Way way) {
  changing_ = true;
  samples_ = 0;
  way_.store(way, std::memory_order_relaxed);
}

void WayToWait::Record(absl::Duration cost) {
  ++samples_;
  const Way present = way();
  double& average = average_[present];
  if (!std::exchange(changing_, false)) {
    const auto sample = static_cast<double>(absl::ToInt64Nanoseconds(cost));
    const double weight = probing_ ? 1.0 / (samples_ - 1) : options_.weight;
    average =
        average == 0 ? sample : average + weight * (std::min(sample, kOutlier * average) - average);
  }
  if (probing_) {
    if (samples_ == options_.probe) Decide();
    return;
  }
  const bool drifted = average > kDrift * settled_average_;
  if (drifted) interval_ = options_.interval;
  if (drifted || samples_ >= interval_) {
    const Way other = present == kEager ? kPatient : kEager;
    average_[other] = 0;  // what it cost long ago says little of today
    probing_ = true;
    Take(other);
  }
}

void WayToWait::Decide() {
  const Way best = average_[kEager] < kMustPay * average_[kPatient] ? kEager : kPatient;
  interval_ = best == settled_ ? std::min(2 * interval_, kMostDoublings * options_.interval)
                               : options_.interval;
  probing_ = false;
  settled_ = best;
  settled_average_ = average_[best];
  Take(best);
}

}  // namespace redlatch::base
