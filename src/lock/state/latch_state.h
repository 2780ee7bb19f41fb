#ifndef REDLATCH_SRC_LOCK_STATE_LATCH_STATE_H_
#define REDLATCH_SRC_LOCK_STATE_LATCH_STATE_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/lock/state/bidder.h"

namespace redlatch::internal {

// The decisions of one client about one latch, of those who wait until it opens. There is nothing
// to hold: a grant lets all of them through.
class LatchState final : public Bidder {
 public:
  explicit LatchState(const Config& config) : Bidder(config) {}

  void Acquire(Waiter& waiter, base::Instant now, Effects&) override { Enqueue(waiter, now); }
  std::optional<Request> NextRequest(base::Instant now,
                                     absl::Duration early = absl::ZeroDuration()) override;
  bool Valid(uint64_t, base::Instant) const override { return true; }

 private:
  void OnCounts(const LatchCounts& told) override;
  void OnGranted(const NewGrant&, const Basis&, base::Instant now, Effects& effects) override {
    LetThrough(now, effects);
  }
  void OnGrantMessage(const NewGrant&, base::Instant, base::Instant now,
                      Effects& effects) override {
    LetThrough(now, effects);
  }
  bool OnLateResult(const Bade& bade, const Result& result, base::Instant now,
                    Effects& effects) override;
  void LetThrough(base::Instant now, Effects& effects);

  LatchCounts told_;  // the most
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_LATCH_STATE_H_
