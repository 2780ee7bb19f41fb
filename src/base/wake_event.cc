#include "src/base/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "src/base/no_cancellation.h"

namespace redlatch::base {

bool WakeEvent::Open() {
  if (fd() < 0) fd_.store(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), std::memory_order_relaxed);
  return fd() >= 0;
}

void WakeEvent::Signal(int fd) {
  if (fd < 0) return;
  const NoCancellation no_cancellation;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(fd, &one, sizeof one);
}

void WakeEvent::Drain() {
  const NoCancellation no_cancellation;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(fd(), &count, sizeof count);
}

void WakeEvent::Close() {
  const NoCancellation no_cancellation;
  if (const int fd = fd_.exchange(-1, std::memory_order_relaxed); fd >= 0) close(fd);
}

}  // namespace redlatch::base
