#ifndef REDLATCH_SRC_BASE_RANDOM_H_
#define REDLATCH_SRC_BASE_RANDOM_H_

#include <cstdint>

#include "absl/time/time.h"

namespace redlatch::base {

// From the kernel, never from a generator in this process: that one's state is copied by fork(),
// and parent and child would draw the same numbers.
uint64_t RandomBits();

// Between half of `d` and `d`.
absl::Duration Jittered(absl::Duration d);

// Delays that double from `first` to `longest`, each jittered.
class Backoff {
 public:
  constexpr Backoff(absl::Duration first, absl::Duration longest)
      : first_(first), longest_(longest), next_(first) {}
  absl::Duration Next();
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration longest_;
  absl::Duration next_;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_RANDOM_H_
