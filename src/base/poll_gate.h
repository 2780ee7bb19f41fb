#ifndef REDLATCH_SRC_BASE_POLL_GATE_H_
#define REDLATCH_SRC_BASE_POLL_GATE_H_

#include "src/base/unique_fd.h"

namespace redlatch::base {

// Through which a thread polls a descriptor, while another can have it sleep on although something
// comes: an epoll instance. Shutting and opening the gate wakes no thread, unless something is
// there when it is opened. That the other side has hung up, or a failure, comes through a shut one
// too.
//
// Any thread may call Open() and Shut(), one at a time.
class PollGate {
 public:
  // Makes it, open, for the reading of that descriptor; false if that is not possible. No thread
  // polls the one before. Where a connection follows another it is to be left before the first is
  // closed, of which a forked child may have a copy.
  bool Make(int watched);
  void Leave() { fd_.Reset(); }

  // False: it is of no use, and may be as it was.
  bool Open() { return Set(true); }
  bool Shut() { return Set(false); }

  int fd() const { return fd_.get(); }  // for poll(); -1: there is none
  bool watches(int descriptor) const { return fd() >= 0 && watched_ == descriptor; }

 private:
  bool Set(bool open);

  UniqueFd fd_;
  int watched_ = -1;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_POLL_GATE_H_
