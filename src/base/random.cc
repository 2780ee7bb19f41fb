#include "src/base/random.h"

#include <errno.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "src/base/no_cancellation.h"

namespace redlatch::base {

uint64_t RandomBits() {
  const NoCancellation no_cancellation;
  uint64_t bits = 0;
  for (;;) {
    const ssize_t got = getrandom(&bits, sizeof bits, 0);
    if (got == static_cast<ssize_t>(sizeof bits)) return bits;
    if (got < 0 && errno != EINTR) std::abort();  // a kernel without getrandom: nothing is unique
  }
}

// No StrFormat(): if memory is lacking there, the process ends.
std::string RandomHex() {
  return absl::StrCat(absl::Hex(RandomBits(), absl::kZeroPad16),
                      absl::Hex(RandomBits(), absl::kZeroPad16));
}

absl::Duration Jittered(absl::Duration d) {
  constexpr uint64_t kSteps = 1'000'000;
  const auto step = static_cast<double>(RandomBits() % kSteps) / static_cast<double>(kSteps);
  return d * (0.5 + step / 2);
}

absl::Duration Backoff::Next() {
  const absl::Duration delay = next_;
  next_ = std::min(next_ * 2, longest_);
  return Jittered(delay);
}

}  // namespace redlatch::base
