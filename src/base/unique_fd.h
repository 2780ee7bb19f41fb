#ifndef REDLATCH_SRC_BASE_UNIQUE_FD_H_
#define REDLATCH_SRC_BASE_UNIQUE_FD_H_

#include <errno.h>
#include <unistd.h>

#include <utility>

#include "src/base/no_cancellation.h"

namespace redlatch::base {

// Owns a file descriptor and closes it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ < 0) return;
    const NoCancellation no_cancellation;
    close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// Repeats a system call without a time limit as long as signals interrupt it.
template <class Call>
auto Uninterrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_UNIQUE_FD_H_
