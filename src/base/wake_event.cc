#include "src/base/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "src/base/no_cancellation.h"

namespace redlatch::base {

bool WakeEvent::Open() {
  if (!fd_.Verify()) fd_.Take(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return fd_.get() >= 0;
}

bool WakeEvent::OpenAgain(Instant now) { return fd_.VerifyAgain(now) || Open(); }

void WakeEvent::Signal(int fd) {
  if (!KnownFd::Names(fd, KnownFd::Kind::kEvent)) return;
  const NoCancellation no_cancellation;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(fd, &one, sizeof one);
}

void WakeEvent::Drain() {
  if (!Open()) return;
  const NoCancellation no_cancellation;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(fd_.get(), &count, sizeof count);
}

}  // namespace redlatch::base
