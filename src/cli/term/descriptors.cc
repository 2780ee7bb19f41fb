#include "src/cli/term/descriptors.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace redlatch::cli {

namespace {

void CloseRange([[maybe_unused]] unsigned first, [[maybe_unused]] unsigned last) {
#ifdef SYS_close_range  // Linux 5.9; without it they stay open for a while
  syscall(SYS_close_range, first, last, 0);
#endif
}

}  // namespace

void OccupyStandardDescriptors() {
  int descriptor = 0;
  while ((descriptor = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && descriptor <= STDERR_FILENO) {
  }
  if (descriptor >= 0) close(descriptor);
}

void LetGoOfDescriptorsBut(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = STDERR_FILENO + 1;
  for (const int descriptor : kept) {
    const auto number = static_cast<unsigned>(descriptor);
    if (first < number) CloseRange(first, number - 1);
    first = number + 1;
  }
  CloseRange(first, ~0U);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
}

}  // namespace redlatch::cli
