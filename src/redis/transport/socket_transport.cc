#include "src/redis/transport/socket_transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/fork_guard.h"
#include "src/base/known_fd.h"
#include "src/base/unique_fd.h"

namespace redlatch::redis {
namespace {

// `want`: what the step waits for where it is no failure.
IoResult Failed(int error, IoResult::Kind want) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == EINPROGRESS ||
      error == EALREADY) {
    return {.kind = want};
  }
  return {.kind = IoResult::Kind::kError, .error = error};
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

// A peer that vanished without a word is noticed by the kernel within some seconds even where
// nothing is asked of it; a call notices by its own deadline.
void TuneTcp(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 6'000);
}

class SocketTransport final : public Transport {
 public:
  SocketTransport(base::UniqueFd fd, const SocketAddress& address)
      : fd_(fd.Release(), base::KnownFd::Kind::kSocket), address_(address) {}

  // Closing alone would end nothing as long as a forked child holds a copy.
  ~SocketTransport() override {
    if (!fork_guard_.InForkedChild() && fd_.Verify()) shutdown(fd_.get(), SHUT_RDWR);
  }

  // Called again, connect() tells what became of the first call. That there is no error yet
  // (SO_ERROR) would not mean that the connection is made.
  IoResult Connect() override {
    if (!fd_.Verify()) return Failed(EBADF, IoResult::Kind::kWantWrite);
    const auto* address = reinterpret_cast<const sockaddr*>(&address_.storage);
    const bool connected = connect(fd_.get(), address, address_.size) == 0 || errno == EISCONN;
    // A Unix socket whose backlog is full says EAGAIN, and poll() cannot tell when there is room.
    backlog_full_ = !connected && errno == EAGAIN;
    if (connected) return {.kind = IoResult::Kind::kDone};
    return Failed(errno, IoResult::Kind::kWantWrite);
  }

  IoResult Read(char* buffer, size_t size) override {
    const ssize_t got = recv(fd_.get(), buffer, size, MSG_DONTWAIT);
    if (got > 0) return {.kind = IoResult::Kind::kDone, .bytes = static_cast<size_t>(got)};
    if (got == 0) return {.kind = IoResult::Kind::kClosed};
    return Failed(errno, IoResult::Kind::kWantRead);
  }

  IoResult Write(std::string_view bytes) override {
    const ssize_t put = fd_.Send(bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put >= 0) return {.kind = IoResult::Kind::kDone, .bytes = static_cast<size_t>(put)};
    return Failed(errno, IoResult::Kind::kWantWrite);
  }

  bool full_duplex() const override { return true; }

  Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) override {
    constexpr absl::Duration kMoment = absl::Microseconds(200);
    constexpr int kBacklogPauseMs = 2;
    constexpr Readiness kBroken = {.readable = true, .writable = true};
    if (fd_.get() < 0) return kBroken;
    if (backlog_full_) {
      poll(nullptr, 0, std::min(kBacklogPauseMs, base::PollTimeout(deadline)));
      return {.writable = true};
    }
    pollfd fds[2] = {{.fd = fd_.get(), .events = 0, .revents = 0},
                     {.fd = wake_fd, .events = POLLIN, .revents = 0}};
    if (Has(interest, Interest::kRead)) fds[0].events |= POLLIN;
    if (Has(interest, Interest::kWrite)) fds[0].events |= POLLOUT;
    const base::Instant began = base::Now();
    const int ready = poll(fds, wake_fd < 0 ? 1 : 2, base::PollTimeout(deadline));
    // Even if poll() still has the old one.
    const base::Instant now = base::Now();
    if (!(now < began + kMoment ? fd_.VerifyAgain(now) : fd_.Verify())) return kBroken;
    if (ready <= 0) return {};
    const bool broken = (fds[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    return {.readable = broken || (fds[0].revents & POLLIN) != 0,
            .writable = broken || (fds[0].revents & POLLOUT) != 0,
            .woken = wake_fd >= 0 && fds[1].revents != 0};
  }

  void Verify() override { fd_.Verify(); }

  // A reset, and nothing that closing could bring about: a forked child may hold a copy.
  void DiscardUnsent() override {
    if (!fd_.Verify()) return;
    sockaddr nowhere = {};
    nowhere.sa_family = AF_UNSPEC;
    static_cast<void>(connect(fd_.get(), &nowhere, sizeof nowhere));
  }

 private:
  const base::ForkGuard fork_guard_;
  base::KnownFd fd_;
  const SocketAddress address_;
  bool backlog_full_ = false;
};

}  // namespace

std::string Describe(const IoResult& failure) {
  if (!failure.why.empty()) return std::string(failure.why);
  if (failure.kind == IoResult::Kind::kClosed) return "the server closed the connection";
  if (failure.error == EBADF || failure.error == ENOTSOCK) {
    return "other code of this process has closed the connection's descriptor";
  }
  return std::strerror(failure.error);
}

absl::StatusOr<std::unique_ptr<Transport>> OpenSocket(const SocketAddress& address) {
  const int family = address.storage.ss_family;
  base::UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot open a socket for ", address.text, ": ", std::strerror(errno)));
  }
  if (family != AF_UNIX) TuneTcp(fd.get());
  return std::make_unique<SocketTransport>(std::move(fd), address);
}

}  // namespace redlatch::redis
