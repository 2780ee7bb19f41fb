#include "src/base/known_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace redlatch::base {
namespace {

// Of each number, which KnownFd was given it last. Larger numbers are rare, and have the mark
// alone.
constexpr size_t kNumbers = 1 << 16;
std::array<std::atomic<uint64_t>, kNumbers> last_given;
std::atomic<uint64_t> last_serial{0};
std::atomic<bool> no_marks{false};  // the kernel, or a sandbox, refuses them
std::atomic<uint64_t> losses{0};    // KnownFds that were found to be somebody else's

constexpr absl::Duration kTrust = absl::Milliseconds(10);

// Signals that the kernel never sends by itself.
int MarkOf(KnownFd::Kind kind) { return kind == KnownFd::Kind::kSocket ? 62 : 61; }

std::atomic<uint64_t>* LastGiven(int fd) {
  const auto number = static_cast<size_t>(fd);
  return number < kNumbers ? &last_given[number] : nullptr;
}

}  // namespace

bool KnownFd::Names(int fd, Kind kind) {
  if (no_marks.load(std::memory_order_relaxed)) return fd >= 0;
  return fd >= 0 && fcntl(fd, F_GETSIG) == MarkOf(kind);
}

void KnownFd::Take(int fd) {
  Reset();
  if (fd < 0) return;
  if (fcntl(fd, F_SETSIG, MarkOf(kind_)) != 0 && errno != EBADF) no_marks = true;
  serial_ = last_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  if (auto* const last = LastGiven(fd)) last->store(serial_, std::memory_order_relaxed);
  fd_.store(fd, std::memory_order_relaxed);
  trusted_until_.store(0, std::memory_order_relaxed);
}

bool KnownFd::VerifyAgain(Instant now) {
  const uint64_t lost = losses.load(std::memory_order_relaxed);
  if (now.nanos() < trusted_until_.load(std::memory_order_relaxed) &&
      losses_seen_.load(std::memory_order_relaxed) == lost) {
    return get() >= 0;
  }
  losses_seen_.store(lost, std::memory_order_relaxed);
  trusted_until_.store((now + kTrust).nanos(), std::memory_order_relaxed);
  return Verify();
}

bool KnownFd::Verify() {
  const int fd = get();
  if (fd < 0) return false;
  const auto* const last = LastGiven(fd);
  const bool newest = last == nullptr || last->load(std::memory_order_relaxed) == serial_;
  if (newest && Names(fd, kind_)) return true;
  fd_.store(-1, std::memory_order_relaxed);
  losses.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void KnownFd::Reset() {
  if (!Verify()) return;
  close(fd_.exchange(-1, std::memory_order_relaxed));
}

}  // namespace redlatch::base
