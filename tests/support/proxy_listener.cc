#include "tests/support/proxy_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "tests/support/fatal.h"

namespace redlatch::support::proxy {
namespace {

constexpr int kBacklog = 511;

base::UniqueFd MakeSocket(const Address& address) {
  base::UniqueFd result(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  CheckErrno(result.valid(), "socket");
  return result;
}

bool IsPeerOf(const base::UniqueFd& accepted, const base::UniqueFd& connector) {
  if (!connector.valid()) return false;
  Address peer;
  Address own;
  peer.size = own.size = sizeof(sockaddr_storage);
  return getpeername(accepted.get(), peer.get(), &peer.size) == 0 &&
         getsockname(connector.get(), own.get(), &own.size) == 0 && peer.size == own.size &&
         std::memcmp(peer.get(), own.get(), own.size) == 0;
}

}  // namespace

Address TcpAddress(const std::string& numeric_host, int port) {
  Address result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (inet_pton(AF_INET, numeric_host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    result.size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, numeric_host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    result.size = sizeof(*v6);
  } else {
    Fatal("not a numeric address: " + numeric_host);
  }
  return result;
}

Address UnixAddress(const std::string& path) {
  Address result;
  auto* address = reinterpret_cast<sockaddr_un*>(&result.storage);
  if (path.size() >= sizeof(address->sun_path)) Fatal("too long for a Unix socket: " + path);
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path, path.c_str(), path.size() + 1);
  result.size = sizeof(*address);
  return result;
}

Listener::Listener(int epoll, const Address& address, OnClient on_client)
    : epoll_(epoll), address_(address), on_client_(std::move(on_client)) {
  Open();
  Watch(true);
}

Listener::~Listener() {
  if (address_.storage.ss_family == AF_UNIX) {
    unlink(reinterpret_cast<const sockaddr_un*>(&address_.storage)->sun_path);
  }
}

void Listener::Open() {
  if (address_.storage.ss_family == AF_UNIX) {
    unlink(reinterpret_cast<const sockaddr_un*>(&address_.storage)->sun_path);
  }
  socket_ = MakeSocket(address_);
  const int on = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  CheckErrno(bind(socket_.get(), address_.get(), address_.size) == 0, "the proxy's bind");
  CheckErrno(listen(socket_.get(), kBacklog) == 0, "listen");
}

void Listener::Watch(bool on) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = static_cast<EventHandler*>(this);
  epoll_ctl(epoll_, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, socket_.get(), &event);
}

void Listener::SetArrival(Arrival arrival) {
  if (arrival == arrival_) return;
  if (arrival_ == Arrival::kServe) {
    OnEvents(EPOLLIN);  // who connected before is served
    Watch(false);
  }
  if (arrival_ == Arrival::kRefuse) Open();
  if (arrival_ == Arrival::kHang) EmptyBacklog();

  arrival_ = arrival;
  if (arrival == Arrival::kServe) Watch(true);
  if (arrival == Arrival::kRefuse) {
    shutdown(socket_.get(), SHUT_RDWR);  // takes effect though a forked child has a copy
    socket_.Reset();
  }
  if (arrival == Arrival::kHang) FillBacklog();
}

// The kernel answers connect() until the backlog is full. With one of length 0 that is after one
// connection, here our own.
void Listener::FillBacklog() {
  listen(socket_.get(), 0);
  filler_ = MakeSocket(address_);
  // A Unix socket gets an abstract name, for EmptyBacklog() to know it by.
  const sa_family_t family = AF_UNIX;
  if (address_.storage.ss_family == AF_UNIX) {
    (void)bind(filler_.get(), reinterpret_cast<const sockaddr*>(&family), sizeof(family));
  }
  (void)connect(filler_.get(), address_.get(), address_.size);
}

void Listener::EmptyBacklog() {
  base::UniqueFd first(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  // A client may have been faster than the filler.
  if (first.valid() && !IsPeerOf(first, filler_)) on_client_(std::move(first));
  filler_.Reset();
  listen(socket_.get(), kBacklog);
}

void Listener::OnEvents(uint32_t) {
  for (;;) {
    base::UniqueFd client(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (client.valid()) {
      on_client_(std::move(client));
    } else if (errno == EMFILE || errno == ENFILE) {
      Fatal("the proxy is out of file descriptors");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
  }
}

}  // namespace redlatch::support::proxy
