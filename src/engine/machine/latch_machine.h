#ifndef REDLATCH_SRC_ENGINE_MACHINE_LATCH_MACHINE_H_
#define REDLATCH_SRC_ENGINE_MACHINE_LATCH_MACHINE_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/engine/machine/bidder.h"

namespace redlatch::engine {

// The decisions of one client about one latch, of those who wait until it opens. There is nothing
// to hold: a grant lets all of them through.
class LatchMachine final : public Bidder {
 public:
  explicit LatchMachine(const Config& config) : Bidder(config) {}

  void Acquire(Waiter& waiter, base::Instant now, Effects&) override { Enqueue(waiter, now); }
  std::optional<Send> NextSend(base::Instant now,
                               absl::Duration early = absl::ZeroDuration()) override;
  bool Valid(uint64_t, base::Instant) const override { return true; }

 private:
  void OnTold(const Told& told) override;
  void OnGranted(const NewGrant&, const Basis&, base::Instant now, Effects& effects) override {
    LetThrough(now, effects);
  }
  void OnGrantMessage(const NewGrant&, base::Instant, base::Instant now,
                      Effects& effects) override {
    LetThrough(now, effects);
  }
  bool OnLateAnswer(const Bade& bade, const Answer& answer, base::Instant now,
                    Effects& effects) override;
  void LetThrough(base::Instant now, Effects& effects);

  Told told_;  // the most
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_MACHINE_LATCH_MACHINE_H_
