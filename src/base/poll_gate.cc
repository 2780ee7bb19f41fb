#include "src/base/poll_gate.h"

#include <sys/epoll.h>

namespace redlatch::base {

bool PollGate::Make(int watched) {
  Leave();
  fd_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  watched_ = watched;
  epoll_event reading = {.events = EPOLLIN, .data = {}};
  if (fd() >= 0 && epoll_ctl(fd(), EPOLL_CTL_ADD, watched, &reading) == 0) return true;
  Leave();
  return false;
}

bool PollGate::Set(bool open) {
  epoll_event event = {.events = open ? static_cast<uint32_t>(EPOLLIN) : 0U, .data = {}};
  return epoll_ctl(fd(), EPOLL_CTL_MOD, watched_, &event) == 0;
}

}  // namespace redlatch::base
