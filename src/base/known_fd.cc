#include "src/base/known_fd.h"

#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "src/base/no_cancellation.h"

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
int MarkOf(KnownFd::Kind kind) { return 62 - static_cast<int>(kind); }

std::atomic<uint64_t>* LastGiven(int fd) {
  const auto number = static_cast<size_t>(fd);
  return number < kNumbers ? &last_given[number] : nullptr;
}

// Whether SendChecked() works there: over TCP, unless an old kernel or a sandbox refuses.
bool AskForCheck(int fd) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0) return false;
  const sock_txtime any = {.clockid = CLOCK_MONOTONIC, .flags = 0};
  return protocol == IPPROTO_TCP && setsockopt(fd, SOL_SOCKET, SO_TXTIME, &any, sizeof any) == 0;
}

// With a time of transmission, of which TCP makes nothing: EINVAL on a socket without SO_TXTIME,
// which hardly any program sets.
ssize_t SendChecked(int fd, std::string_view bytes, int flags) {
  iovec text = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(uint64_t))] = {};
  msghdr message = {};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const time = CMSG_FIRSTHDR(&message);
  time->cmsg_level = SOL_SOCKET;
  time->cmsg_type = SCM_TXTIME;
  time->cmsg_len = CMSG_LEN(sizeof(uint64_t));
  return sendmsg(fd, &message, flags);
}

// Whether SendChecked() may fail so where send() would not: by its check, or by a sandbox.
bool IsRefusal(int error) {
  return error == EINVAL || error == EPERM || error == EACCES || error == ENOSYS;
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
  kernel_checks_ = kind_ == Kind::kSocket && AskForCheck(fd);
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

bool KnownFd::Latest(int fd) const {
  const auto* const last = LastGiven(fd);
  return last == nullptr || last->load(std::memory_order_relaxed) == serial_;
}

bool KnownFd::Verify() {
  const int fd = get();
  if (fd < 0) return false;
  if (Latest(fd) && Names(fd, kind_)) return true;
  fd_.store(-1, std::memory_order_relaxed);
  losses.fetch_add(1, std::memory_order_relaxed);
  return false;
}

ssize_t KnownFd::Send(std::string_view bytes, int flags) {
  const NoCancellation no_cancellation;
  int failure = EINVAL;
  if (const int fd = get(); kernel_checks_ && fd >= 0 && Latest(fd)) {
    const ssize_t sent = SendChecked(fd, bytes, flags);
    if (sent >= 0) return sent;
    failure = errno;
  }
  if (!Verify()) {
    errno = EBADF;
    return -1;
  }
  if (!IsRefusal(failure)) {
    errno = failure;
    return -1;
  }
  kernel_checks_ = false;  // where it was one, it has been refused to this one
  return send(get(), bytes.data(), bytes.size(), flags);
}

void KnownFd::Reset() {
  if (!Verify()) return;
  const NoCancellation no_cancellation;
  close(fd_.exchange(-1, std::memory_order_relaxed));
}

}  // namespace redlatch::base
