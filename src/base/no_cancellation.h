#ifndef REDLATCH_SRC_BASE_NO_CANCELLATION_H_
#define REDLATCH_SRC_BASE_NO_CANCELLATION_H_

#include <pthread.h>

namespace redlatch::base {

// Disables pthread_cancel() in this thread for a scope. Each system call that is a cancellation
// point has one around it, and so has each call of a user's code. So a thread with deferred
// cancellation, which is the default, is never cancelled inside the library, where other threads
// may know of a waiter on its stack. It costs about 9 ns.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_NO_CANCELLATION_H_
