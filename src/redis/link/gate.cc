#include "src/redis/link/gate.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "src/base/no_cancellation.h"
#include "src/base/wake_event.h"

namespace redlatch::redis {

bool Gate::Create() {
  if (set_ >= 0 && base::IsOwn(set_)) return true;
  socket_ = -1;  // the program has closed the set
  set_ = epoll_create1(EPOLL_CLOEXEC);
  if (set_ >= 0) base::MarkAsOwn(set_);
  return set_ >= 0;
}

bool Gate::Open(const Transport::Polled& socket) {
  if (is_open() && socket.fd == socket_ && socket.events == events_) return true;
  Shut();
  if (!Create()) return false;
  // The values of POLLIN and POLLOUT are also those of EPOLLIN and EPOLLOUT.
  epoll_event event = {.events = static_cast<uint32_t>(socket.events), .data = {}};
  if (epoll_ctl(set_, EPOLL_CTL_ADD, socket.fd, &event) != 0) return false;
  socket_ = socket.fd;
  events_ = socket.events;
  return true;
}

void Gate::Shut() {
  if (!is_open()) return;
  epoll_event unused = {};
  if (base::IsOwn(set_)) epoll_ctl(set_, EPOLL_CTL_DEL, socket_, &unused);
  socket_ = -1;
}

void Gate::Close() {
  const base::NoCancellation no_cancellation;
  const int set = std::exchange(set_, -1);
  if (set >= 0 && base::IsOwn(set)) close(set);
}

}  // namespace redlatch::redis
