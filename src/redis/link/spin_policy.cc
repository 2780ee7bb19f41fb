#include "src/redis/link/spin_policy.h"

namespace redlatch::redis {
namespace {

constexpr double kSmoothing = 1.0 / 8;
constexpr size_t kRepliesInSample = 512;  // in a crowd
// A crowd of commands is answered later than one, and its threads take turns meanwhile. Long enough
// that hardly any of them sleeps: one that does costs a futex, which undoes what the others gain.
constexpr int kLongerInCrowd = 16;

}  // namespace

absl::Duration SpinPolicy::Length() const {
  const base::WayToWait& account = crowded() ? in_crowd_ : alone_;
  if (account.way() == base::WayToWait::kPatient) return absl::ZeroDuration();
  return crowded() ? kLongerInCrowd * length_ : length_;
}

void SpinPolicy::Received(size_t replies) {
  const double before = crowd();
  crowd_.store(before + kSmoothing * (static_cast<double>(replies) - before),
               std::memory_order_relaxed);
  replies_ += replies;
}

void SpinPolicy::Completed(base::Instant begun, base::Instant now) {
  if (crowded()) {
    if (replies_ < kRepliesInSample) return;
    in_crowd_.Record((now - counted_from_) / static_cast<double>(replies_));
  } else {
    alone_.Record(now - begun + in_vain_);
  }
  replies_ = 0;
  counted_from_ = now;
}

}  // namespace redlatch::redis
