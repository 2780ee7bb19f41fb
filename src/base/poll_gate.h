#ifndef REDLATCH_SRC_BASE_POLL_GATE_H_
#define REDLATCH_SRC_BASE_POLL_GATE_H_

#include "src/base/clock.h"
#include "src/base/known_fd.h"

namespace redlatch::base {

// Through which a thread polls a descriptor, while another can have it sleep on although something
// comes: an epoll instance. Shutting and opening the gate wakes nobody, unless something is there
// when it is opened.
//
// Any thread may call Open() and Shut(), one at a time; they do nothing to what is not this gate's
// (any more).
class PollGate {
 public:
  // Makes it, open, for the reading of that descriptor; false where that is not possible. Nobody
  // polls the one before. It is to be left before the descriptor is closed.
  bool Make(int watched);
  void Leave() { fd_.Reset(); }

  // False: it is of no use, and may be as it was.
  bool Open(Instant now) { return Set(true, now); }
  bool Shut(Instant now) { return Set(false, now); }

  int fd() const { return fd_.get(); }  // for poll(); -1: there is none
  bool watches(int descriptor) const { return fd() >= 0 && watched_ == descriptor; }

 private:
  bool Set(bool open, Instant now);

  KnownFd fd_{KnownFd::Kind::kGate};
  int watched_ = -1;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_POLL_GATE_H_
