#ifndef REDLATCH_SRC_BASE_PARKER_H_
#define REDLATCH_SRC_BASE_PARKER_H_

#include <atomic>
#include <cstdint>

#include "src/base/atomic.h"
#include "src/base/clock.h"

namespace redlatch::base {

// A futex: its owner sleeps on one word until another thread sets it.
//
// The owner calls Arm(), publishes the Parker under a mutex, and sleeps in ParkUntil(). The other
// thread calls Set() with a small value other than 0. Everything written before Set() is visible
// after ParkUntil() has returned that value. The owner may destroy the Parker as soon as it has
// seen the last value that it expects: Set() touches no memory of the Parker after its one atomic
// write.
//
// An owner that sleeps in poll() calls BeginPolling() before it and EndPolling() after it. Set()
// then signals the WakeEvent with the given descriptor, which must live as long as any thread may
// be in Set().
class Parker {
 public:
  static constexpr uint32_t kArmed = 0;

  void Arm() { word_.store(kArmed, std::memory_order_relaxed); }

  // Returns the value that was set, or kArmed if the deadline passed first, or after a Interrupt().
  uint32_t ParkUntil(Instant deadline);

  // Returns false if a value is set already, or after a Interrupt().
  bool BeginPolling(int event_fd);
  void EndPolling();

  // Returns the present value without waiting.
  uint32_t value() const {
    const uint32_t now = word_.load(std::memory_order_acquire);
    return now >= kPolling ? kArmed : now;
  }

  void Set(uint32_t value);

  // Ends the owner's sleep, or the next one, without a value; does nothing once one is set. The
  // caller must know that the Parker still exists.
  void Interrupt();

 private:
  static constexpr uint32_t kSleeping = ~uint32_t{0};
  static constexpr uint32_t kInterrupted = ~uint32_t{1};
  static constexpr uint32_t kPolling = uint32_t{1} << 31;  // plus the descriptor

  // True if the word was kInterrupted.
  bool TakeInterrupt();
  void Wake(uint32_t before);

  Atomic<uint32_t> word_{kArmed};
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_PARKER_H_
