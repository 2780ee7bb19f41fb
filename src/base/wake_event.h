#ifndef REDLATCH_SRC_BASE_WAKE_EVENT_H_
#define REDLATCH_SRC_BASE_WAKE_EVENT_H_

#include <atomic>

namespace redlatch::base {

// Gets a thread out of poll(): an eventfd.
class WakeEvent {
 public:
  WakeEvent() = default;
  ~WakeEvent() { Close(); }
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // Creates it if needed; false, and errno: no descriptor is left.
  bool Open();

  // For poll(); -1: there is none.
  int fd() const { return fd_.load(std::memory_order_relaxed); }

  // Any thread may call it.
  void Signal() const { Signal(fd()); }
  static void Signal(int fd);

  // After poll() has said that it is readable.
  void Drain();

  void Close();

 private:
  std::atomic<int> fd_{-1};
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_WAKE_EVENT_H_
