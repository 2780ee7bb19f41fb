#ifndef REDLATCH_SRC_BASE_UNINTERRUPTED_H_
#define REDLATCH_SRC_BASE_UNINTERRUPTED_H_

#include <errno.h>

namespace redlatch::base {

// A system call without a time limit, again for as long as a signal interrupts it. What has a limit
// computes what is left of it before each try: see Parker, Transport::Wait().
template <class Call>
auto Uninterrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_UNINTERRUPTED_H_
