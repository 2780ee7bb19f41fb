#ifndef REDLATCH_TESTS_SIM_NET_NETWORK_H_
#define REDLATCH_TESTS_SIM_NET_NETWORK_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/os/kernel.h"
#include "tests/sim/os/objects.h"

namespace redlatch::sim {

struct Address {
  uint32_t ip = 0;
  uint16_t port = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
};
std::string ToString(Address address);

// A client's TCP socket. Failing functions return an errno, or -errno if they return a size.
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

// A program that accepts connections at an address.
class Server {
 public:
  virtual ~Server() = default;
  virtual void Connected(uint64_t connection) = 0;
  virtual void Received(uint64_t connection, std::string_view bytes) = 0;
  virtual void Disconnected(uint64_t connection) = 0;
  // The server reads nothing until this kernel time, because its process is stopped or runs a slow
  // script.
  virtual int64_t busy_until() const { return 0; }
};

// How long a peer may be silent before the kernel ends the connection.
// src/redis/transport/transport.cc sets this keepalive.
constexpr int64_t kMostSilence = 6 * kSecond;

// The path between one client process and one address.
struct Link {
  int64_t fastest = 20 * kMicro;
  int64_t slowest = 120 * kMicro;
  uint64_t late_one_in = 0;  // that fraction of segments takes up to `latest` instead
  int64_t latest = 0;
  int64_t extra = 0;  // up to this much more, for all segments
  // That fraction of segments is split anywhere; the first part joins the segment before it.
  uint64_t split_one_in = 0;
  // Nothing arrives in that direction. Sent bytes wait, as TCP repeats them.
  bool up_held = false;
  bool down_held = false;
};

// TCP between the processes and the servers. Each connection delivers its bytes in order, in
// segments that the link delays; segments of different connections overtake each other.
class Network {
 public:
  explicit Network(Kernel& kernel);
  ~Network() { current_ = nullptr; }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  static Network* Current() { return current_; }

  void Listen(Address address, Server* server);
  // The server stops listening, and its connections are reset. If `silently`, its machine is gone
  // too, and the clients receive nothing until it listens again.
  void StopListening(Address address, bool silently);
  void Send(uint64_t connection, std::string_view bytes);
  void CloseByServer(uint64_t connection);

  Link& Between(Process* process, Address address) { return links_[{process, address}]; }
  // Called after a change of up_held or down_held.
  void LinkChanged(Process* process, Address address);

  // A router forgets the connection: the client's side is reset. Bytes that it has sent arrive up
  // to `late` later, or some are lost.
  void Cut(uint64_t connection, int64_t late);
  // Nothing reaches the client any more. Both sides keep the connection until the keepalive probes
  // of the client's kernel go unanswered.
  void Swallow(uint64_t connection);
  std::vector<uint64_t> ConnectionsOf(Process* process, Address address) const;
  std::vector<uint64_t> Connections() const;
  Process* ProcessOf(uint64_t connection) const;

  // The sockets call these.
  uint64_t Open(Process* process, Address address, Socket* socket);
  size_t SendToServer(uint64_t connection, std::string_view bytes);
  size_t RoomToServer(uint64_t connection) const;
  void CloseByClient(uint64_t connection, bool reset);

 private:
  // Bytes that one side has sent and the other has not received. An empty segment ends the flow.
  struct Flow {
    std::deque<std::string> segments;
    size_t bytes = 0;
    int64_t last = 0;   // the earliest arrival of the last segment
    bool held = false;  // only this connection is held
    bool ends = false;
    size_t waiting = 0;  // segments whose time came while the flow was held
    uint64_t plan = 0;   // changes when scheduled arrivals become invalid
  };
  struct Connection {
    Process* process;
    Address address;
    Socket* socket;  // null: closed by the client, or cut
    Server* server;  // null: not accepted, or closed by the server
    bool gone_silently = false;
    Flow up;
    Flow down;
  };

  Connection* Find(uint64_t id);
  void Sent(uint64_t id, bool up, std::string bytes);
  void Schedule(uint64_t id, bool up, Link& link, int64_t extra);
  void Arrive(uint64_t id, bool up, uint64_t plan);
  void ArriveAtServer(uint64_t id, Connection& connection);
  void ArriveAtClient(uint64_t id, Connection& connection);
  void Synchronise(uint64_t id);
  void Release(uint64_t id, bool up);
  void EndIfOver(uint64_t id);
  // The client's kernel ends the connection after kMostSilence: its probes go unanswered.
  void EndBySilence(uint64_t id);
  int64_t Delay(const Link& link);

  static Network* current_;

  Kernel& kernel_;
  Random random_;
  uint64_t next_ = 1;
  std::map<Address, Server*> servers_;
  std::map<Address, bool> silent_;  // addresses whose machine is gone
  std::map<std::pair<Process*, Address>, Link> links_;
  std::map<uint64_t, Connection> connections_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_NET_NETWORK_H_
