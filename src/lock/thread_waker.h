#ifndef REDLATCH_SRC_LOCK_THREAD_WAKER_H_
#define REDLATCH_SRC_LOCK_THREAD_WAKER_H_

#include <cstdint>

#include "src/base/parker.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// Of an acquisition that belongs to one thread, which sleeps on the word.
class ThreadWaker final : public Waker {
 public:
  static constexpr uint32_t kWoken = 1;
  static constexpr uint32_t kThrough = 2;

  void Wake(bool through) override { parker.Set(through ? kThrough : kWoken); }

  base::Parker parker;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_THREAD_WAKER_H_
