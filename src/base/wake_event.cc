#include "src/base/wake_event.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "src/base/atomic.h"
#include "src/base/no_cancellation.h"

namespace redlatch::base {

namespace {

// The signal of a descriptor is sent only if it has O_ASYNC. Here it is a mark, which files of the
// program do not have.
constexpr int kMark = 61;
Atomic<bool> can_mark{true};  // false: this system knows no such signal

}  // namespace

void MarkAsOwn(int fd) {
  if (fcntl(fd, F_SETSIG, kMark) != 0) can_mark = false;
}

bool IsOwn(int fd) { return !can_mark || fcntl(fd, F_GETSIG) == kMark; }

bool WakeEvent::Open() {
  if (fd() >= 0) return true;
  const int fresh = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fresh >= 0) MarkAsOwn(fresh);
  fd_.store(fresh, std::memory_order_relaxed);
  return fresh >= 0;
}

void WakeEvent::Signal(int fd) {
  if (fd < 0 || !IsOwn(fd)) return;
  const NoCancellation no_cancellation;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(fd, &one, sizeof one);
}

void WakeEvent::Drain() {
  if (!IsOwn(fd())) {
    fd_.store(-1, std::memory_order_relaxed);
    Open();
    return;
  }
  const NoCancellation no_cancellation;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(fd(), &count, sizeof count);
}

void WakeEvent::Close() {
  const NoCancellation no_cancellation;
  const int fd = fd_.exchange(-1, std::memory_order_relaxed);
  if (fd >= 0 && IsOwn(fd)) close(fd);
}

}  // namespace redlatch::base
