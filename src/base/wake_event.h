#ifndef REDLATCH_SRC_BASE_WAKE_EVENT_H_
#define REDLATCH_SRC_BASE_WAKE_EVENT_H_

#include "src/base/clock.h"
#include "src/base/known_fd.h"

namespace redlatch::base {

// Gets a thread out of poll(): an eventfd, which is made anew if somebody else has closed it.
// A thread that is in poll() then is not woken any more; so nobody polls it for very long.
class WakeEvent {
 public:
  // Makes it, if it is not there (any more); false, and errno, if no descriptor is left.
  bool Open();

  // The same for one that was verified lately: see KnownFd::VerifyAgain().
  bool OpenAgain(Instant now);

  // For poll(); -1: there is none.
  int fd() const { return fd_.get(); }

  // Any thread's. What is not a WakeEvent's (any more) is left alone.
  void Signal() const { Signal(fd()); }
  static void Signal(int fd);

  // After poll() has said that it is readable, or no longer a descriptor.
  void Drain();

  void Close() { fd_.Reset(); }

 private:
  KnownFd fd_{KnownFd::Kind::kEvent};
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_WAKE_EVENT_H_
