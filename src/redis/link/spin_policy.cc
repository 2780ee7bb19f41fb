#include "src/redis/link/spin_policy.h"

namespace redlatch::redis {

namespace {

constexpr double kSmoothing = 1.0 / 8;
constexpr size_t kRepliesInSample = 512;  // with many callers
// Many commands are answered later than one, and their threads take turns meanwhile. This is long
// enough that hardly any of them sleeps: a thread that sleeps costs a futex, which undoes the gain
// of the others.
constexpr int kLongerForMany = 16;

}  // namespace

absl::Duration SpinPolicy::Length() const {
  const base::WayToWait& account = many_callers() ? many_ : alone_;
  if (account.way() == base::WayToWait::kPatient) return absl::ZeroDuration();
  return many_callers() ? kLongerForMany * length_ : length_;
}

void SpinPolicy::Received(size_t replies) {
  const double before = callers_per_read();
  callers_per_read_.store(before + kSmoothing * (static_cast<double>(replies) - before),
                          std::memory_order_relaxed);
  replies_ += replies;
}

void SpinPolicy::Completed(base::Instant begun, base::Instant now) {
  if (many_callers()) {
    if (replies_ < kRepliesInSample) return;
    many_.Record((now - counted_from_) / static_cast<double>(replies_));
  } else {
    alone_.Record(now - begun + in_vain_);
  }
  replies_ = 0;
  counted_from_ = now;
}

}  // namespace redlatch::redis
