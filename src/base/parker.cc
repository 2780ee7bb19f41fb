#include "src/base/parker.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/base/atomic.h"
#include "src/base/wake_event.h"

namespace redlatch::base {
namespace {

void FutexWait(Atomic<uint32_t>* word, uint32_t expected, Instant deadline) {
  timespec timeout;
  timespec* limit = nullptr;
  if (!deadline.is_infinite()) {
    const int64_t left = absl::ToInt64Nanoseconds(SleepUntil(deadline));
    timeout.tv_sec = left / 1'000'000'000;
    timeout.tv_nsec = left % 1'000'000'000;
    limit = &timeout;
  }
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, limit, nullptr, 0);
}

}  // namespace

uint32_t Parker::ParkUntil(Instant deadline) {
  for (;;) {
    uint32_t now = kArmed;
    if (!word_.compare_exchange_strong(now, kSleeping, std::memory_order_acquire) &&
        now != kSleeping) {
      if (TakeInterrupt()) return kArmed;
      return word_.load(std::memory_order_acquire);
    }
    FutexWait(&word_, kSleeping, deadline);
    if (TakeInterrupt()) return kArmed;
    now = word_.load(std::memory_order_acquire);
    if (now != kSleeping) return now;
    if (deadline <= Now()) {
      now = kSleeping;
      if (word_.compare_exchange_strong(now, kArmed, std::memory_order_acquire)) return kArmed;
      return now;
    }
  }
}

bool Parker::TakeInterrupt() {
  uint32_t now = kInterrupted;
  return word_.compare_exchange_strong(now, kArmed, std::memory_order_acquire);
}

bool Parker::BeginPolling(int event_fd) {
  if (TakeInterrupt()) return false;
  uint32_t now = kArmed;
  // With release: a thread that signals the event must see that it exists.
  return word_.compare_exchange_strong(now, kPolling + static_cast<uint32_t>(event_fd),
                                       std::memory_order_acq_rel);
}

void Parker::EndPolling() {
  uint32_t now = word_.load(std::memory_order_acquire);
  if (now >= kPolling) word_.compare_exchange_strong(now, kArmed, std::memory_order_acquire);
}

void Parker::Set(uint32_t value) { Wake(word_.exchange(value, std::memory_order_acq_rel)); }

void Parker::Interrupt() {
  uint32_t now = word_.load(std::memory_order_acquire);
  while (now == kArmed || now >= kPolling) {
    if (now == kInterrupted) return;
    if (word_.compare_exchange_weak(now, kInterrupted, std::memory_order_acq_rel)) return Wake(now);
  }
}

void Parker::Wake(uint32_t before) {
  if (before < kPolling || before == kInterrupted) return;
  if (before == kSleeping) {
    // This uses only the address: if the owner has left already, no thread is woken.
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  } else {
    WakeEvent::Signal(static_cast<int>(before - kPolling));
  }
}

}  // namespace redlatch::base
