#include "tests/sim/net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <algorithm>

#include "tests/sim/net/network.h"

namespace redlatch::sim {

std::string ToString(Address address) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += std::to_string((address.ip >> shift) & 255) + (shift > 0 ? "." : ":");
  }
  return text + std::to_string(address.port);
}

int Socket::Connect(Address address) {
  switch (state_) {
    case State::kNew:
      state_ = State::kConnecting;
      peer_ = address;
      connection_ = Network::Current()->Open(process_, address, this);
      return EINPROGRESS;
    case State::kConnecting:
      return EALREADY;
    case State::kConnected:
      return EISCONN;
    default:
      return error_ != 0 ? error_ : ECONNABORTED;
  }
}

ssize_t Socket::Send(std::string_view bytes) {
  if (state_ == State::kFailed) return -error_;
  if (state_ != State::kConnected) return state_ == State::kClosed ? -EPIPE : -ENOTCONN;
  const size_t sent = Network::Current()->SendToServer(connection_, bytes);
  return sent > 0 ? static_cast<ssize_t>(sent) : -EAGAIN;
}

ssize_t Socket::Receive(char* buffer, size_t size) {
  const size_t got = std::min(size, arrived_.size() - taken_);
  if (got > 0) {
    memcpy(buffer, arrived_.data() + taken_, got);
    taken_ += got;
    if (taken_ == arrived_.size()) arrived_.clear(), taken_ = 0;
    return static_cast<ssize_t>(got);
  }
  if (state_ == State::kFailed) return -error_;
  if (ended_ || state_ == State::kClosed) return 0;
  return state_ == State::kConnected ? -EAGAIN : -ENOTCONN;
}

void Socket::Reset() {
  if (state_ == State::kConnected) Network::Current()->CloseByClient(connection_, /*reset=*/true);
  state_ = State::kClosed;
  Changed();
}

void Socket::Closed() {
  if (state_ == State::kConnected || state_ == State::kConnecting) {
    Network::Current()->CloseByClient(connection_, /*reset=*/false);
  }
  state_ = State::kClosed;
  Changed();
}

bool Socket::Name(sockaddr* address, socklen_t* size, bool peer) const {
  if (state_ != State::kConnected) return false;
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(peer ? peer_.ip : 0x0a010101);
  name.sin_port = htons(peer ? peer_.port : static_cast<uint16_t>(connection_));
  memcpy(address, &name, std::min<size_t>(*size, sizeof name));
  *size = sizeof name;
  return true;
}

short Socket::Events() const {
  switch (state_) {
    case State::kNew:
      return POLLHUP | POLLOUT;
    case State::kConnecting:
      return 0;
    case State::kConnected: {
      const bool readable = taken_ < arrived_.size() || ended_;
      const bool writable = Network::Current()->RoomToServer(connection_) > 0;
      return static_cast<short>((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));
    }
    default:
      return POLLIN | POLLOUT | POLLERR | POLLHUP;
  }
}

void Socket::Connected() {
  state_ = State::kConnected;
  Changed();
}

void Socket::Arrived(std::string_view bytes) {
  arrived_.append(bytes);
  Changed();
}

void Socket::Failed(int error) {
  state_ = State::kFailed;
  error_ = error;
  Changed();
}

}  // namespace redlatch::sim
