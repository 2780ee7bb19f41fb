#ifndef REDLATCH_TESTS_SIM_NET_SOCKET_H_
#define REDLATCH_TESTS_SIM_NET_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/sim/os/descriptor.h"

namespace redlatch::sim {

struct Address {
  uint32_t ip = 0;
  uint16_t port = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
};
std::string ToString(Address address);

// A client's TCP socket. Functions that fail return an errno, or -errno if they return a size.
class Socket final : public Descriptor {
 public:
  explicit Socket(Process* process) : process_(process) {}
  ~Socket() override { Closed(); }

  int Connect(Address address);
  ssize_t Send(std::string_view bytes);
  ssize_t Receive(char* buffer, size_t size);
  void Shutdown() { Closed(); }
  void Reset();
  // False if it is not connected.
  bool Name(sockaddr* address, socklen_t* size, bool peer) const;

  short Events() const override;
  void Closed() override;

  // The network calls these.
  void Connected();
  void Arrived(std::string_view bytes);
  void Ended() { ended_ = true, Changed(); }
  void Failed(int error);

 private:
  enum class State : uint8_t { kNew, kConnecting, kConnected, kFailed, kClosed };

  Process* const process_;
  State state_ = State::kNew;
  uint64_t connection_ = 0;
  Address peer_;
  int error_ = 0;
  bool ended_ = false;  // the server has closed its side
  std::string arrived_;
  size_t taken_ = 0;  // of arrived_
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_NET_SOCKET_H_
