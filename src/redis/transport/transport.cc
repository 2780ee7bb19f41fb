#include "src/redis/transport/transport.h"

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
#include "src/base/no_cancellation.h"
#include "src/base/unique_fd.h"
#include "src/redis/transport/tls.h"

namespace redlatch::redis {

namespace {

// `want`: what the step waits for if the errno is no failure.
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

// The kernel notices within seconds that the peer has vanished, even if no command is sent. A call
// notices at its own deadline.
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
      : fd_(std::move(fd)), address_(address) {}

  // Closing alone does not end the connection if a forked child holds a copy. If the program has
  // closed the socket, its number may by now be that of a file of the program.
  ~SocketTransport() override {
    const bool ended = fork_guard_.InForkedChild() || shutdown(fd_.get(), SHUT_RDWR) == 0;
    if (!ended && (errno == ENOTSOCK || errno == EBADF)) fd_.Release();
  }

  // A second connect() tells the outcome of the first. SO_ERROR would not: no error yet does not
  // mean that the connection is made.
  IoResult Connect() override {
    const auto* address = reinterpret_cast<const sockaddr*>(&address_.storage);
    const bool connected = connect(fd_.get(), address, address_.size) == 0 || errno == EISCONN;
    // connect() to a Unix socket whose backlog is full fails with EAGAIN, and poll() cannot tell
    // when there is room.
    backlog_full_ = !connected && errno == EAGAIN;
    if (connected && IsItself()) return Failed(ECONNREFUSED, IoResult::Kind::kWantWrite);
    if (connected) return {.kind = IoResult::Kind::kDone};
    return Failed(errno, IoResult::Kind::kWantWrite);
  }

  IoResult Read(char* buffer, size_t size) override {
    const base::NoCancellation no_cancellation;
    const ssize_t got = recv(fd_.get(), buffer, size, MSG_DONTWAIT);
    if (got > 0) return {.kind = IoResult::Kind::kDone, .bytes = static_cast<size_t>(got)};
    if (got == 0) return {.kind = IoResult::Kind::kClosed};
    return Failed(errno, IoResult::Kind::kWantRead);
  }

  IoResult Write(std::string_view bytes) override {
    const base::NoCancellation no_cancellation;
    const ssize_t put = send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put >= 0) return {.kind = IoResult::Kind::kDone, .bytes = static_cast<size_t>(put)};
    return Failed(errno, IoResult::Kind::kWantWrite);
  }

  bool full_duplex() const override { return true; }

  Polled BeginPoll(Interest interest) override {
    constexpr absl::Duration kBacklogPause = absl::Milliseconds(2);
    if (backlog_full_) return {.until = base::Now() + kBacklogPause};
    Polled polled{.fd = fd_.get()};
    if (Has(interest, Interest::kRead)) polled.events |= POLLIN;
    if (Has(interest, Interest::kWrite)) polled.events |= POLLOUT;
    return polled;
  }

  // Resets the connection. Closing would not: a forked child may hold a copy.
  void DiscardUnsent() override {
    const base::NoCancellation no_cancellation;
    sockaddr nowhere = {};
    nowhere.sa_family = AF_UNSPEC;
    static_cast<void>(connect(fd_.get(), &nowhere, sizeof nowhere));
  }

 private:
  // If no server listens at a port in the kernel's range for clients, the kernel may choose that
  // port for this socket. It is then connected to itself, and would echo its own commands.
  bool IsItself() const {
    sockaddr_storage here = {};
    sockaddr_storage there = {};
    socklen_t here_size = sizeof here;
    socklen_t there_size = sizeof there;
    return address_.storage.ss_family != AF_UNIX &&
           getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
           getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
           here_size == there_size && memcmp(&here, &there, here_size) == 0;
  }

  const base::ForkGuard fork_guard_;
  base::UniqueFd fd_;
  const SocketAddress address_;
  bool backlog_full_ = false;
};

}  // namespace

std::string Describe(const IoResult& failure) {
  if (!failure.why.empty()) return std::string(failure.why);
  if (failure.kind == IoResult::Kind::kClosed) return "the server closed the connection";
  return std::strerror(failure.error);
}

Readiness Transport::Wait(Interest interest, int wake_fd, base::Instant deadline) {
  const Polled polled = BeginPoll(interest);
  if (polled.already.Meets(interest)) return polled.already;
  pollfd fds[2] = {{.fd = polled.fd, .events = polled.events, .revents = 0},
                   {.fd = wake_fd, .events = POLLIN, .revents = 0}};
  const size_t count = polled.fd < 0 || wake_fd < 0 ? 1 : 2;
  const bool ready = base::Poll(fds, count, std::min(deadline, polled.until)) > 0;
  if (polled.fd < 0) return {.writable = true};  // the backlog may have room by now
  const int16_t came = ready ? fds[0].revents : int16_t{0};
  const bool broken = (came & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  return {.readable = broken || (came & POLLIN) != 0,
          .writable = broken || (came & POLLOUT) != 0,
          .woken = ready && fds[1].revents != 0};
}

absl::StatusOr<std::unique_ptr<Transport>> OpenTransport(const Target& target) {
  const int family = target.address.storage.ss_family;
  base::UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot open a socket for ", target.address.text, ": ", std::strerror(errno)));
  }
  if (family != AF_UNIX) TuneTcp(fd.get());
  auto transport = std::make_unique<SocketTransport>(std::move(fd), target.address);
  if (target.tls == nullptr) return transport;
  return OpenTls(target.tls, target.host, std::move(transport));
}

}  // namespace redlatch::redis
