#ifndef REDLATCH_SRC_BASE_WAKE_EVENT_H_
#define REDLATCH_SRC_BASE_WAKE_EVENT_H_

#include <atomic>

#include "src/base/atomic.h"

namespace redlatch::base {

// Marks a descriptor as the library's own, and tells if it still is: the program may have closed it
// and opened another file with the same number.
void MarkAsOwn(int fd);
bool IsOwn(int fd);

// An eventfd, with which one thread ends the poll() of another. It uses its descriptor only if the
// program has not closed it and opened another file with the same number.
class WakeEvent {
 public:
  WakeEvent() = default;
  ~WakeEvent() { Close(); }
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // Creates the descriptor if needed. Returns false, and sets errno, if none is left.
  bool Open();

  // The descriptor for poll(); -1 if there is none.
  int fd() const { return fd_.load(std::memory_order_relaxed); }

  // May be called by any thread.
  void Signal() const { Signal(fd()); }
  static void Signal(int fd);

  // To be called when poll() has found it ready. If the program has closed its descriptor, it gets
  // a new one.
  void Drain();

  void Close();

 private:
  Atomic<int> fd_{-1};
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_WAKE_EVENT_H_
