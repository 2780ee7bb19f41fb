#ifndef REDLATCH_SRC_BASE_PARKER_H_
#define REDLATCH_SRC_BASE_PARKER_H_

#include <atomic>
#include <cstdint>

#include "src/base/clock.h"

namespace redlatch::base {

// One word on which its owner sleeps until another thread sets it: a futex.
//
// The owner calls Arm(), publishes the word under a mutex, and sleeps in ParkUntil(). The other
// thread calls Set() with a small value of its choice, not 0. What was written before Set() is
// visible after ParkUntil() returned that value. The owner may destroy the word as soon as it has
// seen a value that the protocol between the two calls final: Set() touches no memory of the Parker
// after its one atomic write.
//
// An owner that sleeps in poll() calls BeginPolling() before and EndPolling() after: Set() then
// signals the WakeEvent whose descriptor it gave, and which must live for as long as any thread may
// be in Set().
class Parker {
 public:
  static constexpr uint32_t kArmed = 0;

  void Arm() { word_.store(kArmed, std::memory_order_relaxed); }

  // The value set, or kArmed where the deadline passed first.
  uint32_t ParkUntil(Instant deadline);

  // False where a value is set already.
  bool BeginPolling(int event_fd);
  void EndPolling();

  // The value now, without waiting.
  uint32_t value() const {
    const uint32_t now = word_.load(std::memory_order_acquire);
    return now >= kPolling ? kArmed : now;
  }

  void Set(uint32_t value);

 private:
  static constexpr uint32_t kSleeping = ~uint32_t{0};
  static constexpr uint32_t kPolling = uint32_t{1} << 31;  // and the descriptor

  std::atomic<uint32_t> word_{kArmed};
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_PARKER_H_
