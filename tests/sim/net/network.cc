#include "tests/sim/net/network.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <algorithm>
#include <utility>

namespace redlatch::sim {

namespace {

constexpr size_t kWindow = size_t{256} << 10;

}  // namespace

Network* Network::current_ = nullptr;

Network::Network(Kernel& kernel) : kernel_(kernel), random_(kernel.random().Fork()) {
  current_ = this;
}

Network::Connection* Network::Find(uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

void Network::Listen(Address address, Server* server) {
  servers_[address] = server;
  silent_.erase(address);
}

void Network::StopListening(Address address, bool silently) {
  servers_.erase(address);
  if (silently) silent_[address] = true;
  for (auto& [id, connection] : connections_) {
    if (connection.address != address || connection.server == nullptr) continue;
    connection.server = nullptr;
    connection.up = Flow();
    connection.gone_silently = silently;
    silently ? EndBySilence(id) : Sent(id, /*up=*/false, "");
  }
}

int64_t Network::Delay(const Link& link) {
  const int64_t extra = link.extra > 0 ? random_.Between(0, link.extra) : 0;
  if (random_.OneIn(link.late_one_in)) return extra + random_.Between(link.slowest, link.latest);
  return extra + random_.Between(link.fastest, link.slowest);
}

uint64_t Network::Open(Process* process, Address address, Socket* socket) {
  const uint64_t id = next_++;
  connections_.emplace(id, Connection{.process = process,
                                      .address = address,
                                      .socket = socket,
                                      .server = nullptr,
                                      .up = {},
                                      .down = {}});
  Synchronise(id);
  return id;
}

// A SYN is sent, and repeated every second while the link is held or the machine is gone.
void Network::Synchronise(uint64_t id) {
  Connection* const connection = Find(id);
  const Link& link = Between(connection->process, connection->address);
  kernel_.After(2 * Delay(link), [this, id] {
    Connection* const opening = Find(id);
    if (opening == nullptr || opening->socket == nullptr) return EndIfOver(id);
    const Link& its_link = Between(opening->process, opening->address);
    if (its_link.up_held || its_link.down_held || silent_.contains(opening->address)) {
      return kernel_.After(kSecond, [this, id] {
        if (Find(id) != nullptr) Synchronise(id);
      });
    }
    const auto server = servers_.find(opening->address);
    if (server == servers_.end()) {
      Socket* const socket = std::exchange(opening->socket, nullptr);
      EndIfOver(id);
      return socket->Failed(ECONNREFUSED);
    }
    opening->server = server->second;
    opening->server->Connected(id);
    if (opening->socket != nullptr) opening->socket->Connected();
  });
}

size_t Network::RoomToServer(uint64_t id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? 1 : kWindow - std::min(kWindow, found->second.up.bytes);
}

size_t Network::SendToServer(uint64_t id, std::string_view bytes) {
  const size_t taken = std::min(bytes.size(), RoomToServer(id));
  Connection* const connection = Find(id);
  if (connection == nullptr) return bytes.size();
  if (connection->gone_silently && servers_.contains(connection->address)) {
    connection->gone_silently = false;
    Sent(id, /*up=*/false, "");  // the machine replies with a reset
  }
  if (taken > 0) Sent(id, /*up=*/true, std::string(bytes.substr(0, taken)));
  return taken;
}

void Network::Send(uint64_t id, std::string_view bytes) {
  if (Find(id) != nullptr) Sent(id, /*up=*/false, std::string(bytes));
}

void Network::CloseByServer(uint64_t id) {
  Connection* const connection = Find(id);
  if (connection == nullptr || connection->server == nullptr) return;
  connection->server = nullptr;
  connection->up = Flow();
  Sent(id, /*up=*/false, "");
}

void Network::CloseByClient(uint64_t id, bool reset) {
  Connection* const connection = Find(id);
  if (connection == nullptr) return;
  connection->socket = nullptr;
  connection->down = Flow();
  if (connection->server == nullptr) return EndIfOver(id);
  // After a reset, segments in flight may arrive or not.
  if (reset && !connection->up.segments.empty() && random_.OneIn(2)) {
    connection->up.segments.back().clear();
    connection->up.ends = true;
    return;
  }
  Sent(id, /*up=*/true, "");
}

void Network::Sent(uint64_t id, bool up, std::string bytes) {
  Connection& connection = *Find(id);
  Flow& flow = up ? connection.up : connection.down;
  if (flow.ends) return;
  flow.ends = bytes.empty();
  flow.bytes += bytes.size();
  Link& link = Between(connection.process, connection.address);
  while (bytes.size() > 1 && random_.OneIn(link.split_one_in)) {
    const size_t first = 1 + random_.Below(bytes.size() - 1);
    if (flow.segments.empty()) {
      flow.segments.emplace_back();
      Schedule(id, up, link, 0);
    }
    flow.segments.back().append(bytes, 0, first);
    bytes.erase(0, first);
  }
  flow.segments.push_back(std::move(bytes));
  Schedule(id, up, link, 0);
}

void Network::Schedule(uint64_t id, bool up, Link& link, int64_t extra) {
  Connection& connection = *Find(id);
  Flow& flow = up ? connection.up : connection.down;
  flow.last = std::max(flow.last, kernel_.now() + Delay(link) + extra);
  kernel_.At(flow.last, [this, id, up, plan = flow.plan] { Arrive(id, up, plan); });
}

void Network::Arrive(uint64_t id, bool up, uint64_t plan) {
  Connection* const connection = Find(id);
  if (connection == nullptr) return;
  Flow& flow = up ? connection->up : connection->down;
  const Link& link = Between(connection->process, connection->address);
  if (flow.segments.empty() || flow.plan != plan) return;
  if (flow.held || (up ? link.up_held : link.down_held)) {
    ++flow.waiting;
    return;
  }
  if (up && connection->server != nullptr && connection->server->busy_until() > kernel_.now()) {
    return kernel_.At(connection->server->busy_until(),
                      [this, id, plan] { Arrive(id, true, plan); });
  }
  kernel_.CountStep();
  if (up) {
    ArriveAtServer(id, *connection);
  } else {
    ArriveAtClient(id, *connection);
  }
}

void Network::ArriveAtServer(uint64_t id, Connection& connection) {
  const std::string bytes = std::move(connection.up.segments.front());
  connection.up.segments.pop_front();
  connection.up.bytes -= bytes.size();
  Server* const server = connection.server;
  if (connection.socket != nullptr) connection.socket->Changed();
  if (server == nullptr) return EndIfOver(id);
  if (!bytes.empty()) return server->Received(id, bytes);
  connection.server = nullptr;
  server->Disconnected(id);
  EndIfOver(id);
}

void Network::ArriveAtClient(uint64_t id, Connection& connection) {
  const std::string bytes = std::move(connection.down.segments.front());
  connection.down.segments.pop_front();
  Socket* const socket = connection.socket;
  if (socket == nullptr) return;
  if (!bytes.empty()) return socket->Arrived(bytes);
  if (connection.server == nullptr && random_.OneIn(2)) {
    connection.socket = nullptr;
    socket->Failed(ECONNRESET);
    return EndIfOver(id);
  }
  socket->Ended();
}

void Network::EndIfOver(uint64_t id) {
  const Connection* const connection = Find(id);
  if (connection == nullptr || connection->socket != nullptr || connection->server != nullptr) {
    return;
  }
  connections_.erase(id);
}

void Network::Release(uint64_t id, bool up) {
  Connection& connection = *Find(id);
  Flow& flow = up ? connection.up : connection.down;
  Link& link = Between(connection.process, connection.address);
  // TCP repeats lost segments after a delay that grows with the outage.
  const int64_t extra = flow.waiting > 0 ? random_.Between(0, 200 * kMilli) : 0;
  for (size_t left = std::exchange(flow.waiting, 0); left > 0; --left) {
    Schedule(id, up, link, extra);
  }
}

void Network::LinkChanged(Process* process, Address address) {
  const Link& link = Between(process, address);
  for (const uint64_t id : ConnectionsOf(process, address)) {
    if (!link.up_held) Release(id, /*up=*/true);
    if (!link.down_held) Release(id, /*up=*/false);
  }
}

void Network::Cut(uint64_t id, int64_t late) {
  Connection* const connection = Find(id);
  if (connection == nullptr || connection->socket == nullptr) return;
  Socket* const socket = std::exchange(connection->socket, nullptr);
  connection->down = Flow();
  Flow& up = connection->up;
  // All segments from a random one on are lost.
  const size_t kept = random_.OneIn(2) ? up.segments.size() : random_.Below(up.segments.size() + 1);
  Flow rest;
  for (size_t i = 0; i < kept; ++i) rest.segments.push_back(std::move(up.segments[i]));
  for (const std::string& each : rest.segments) rest.bytes += each.size();
  rest.last = kernel_.now() + (late > 0 ? random_.Between(0, late) : 0);
  rest.ends = true;
  rest.plan = up.plan + 1;
  if (rest.segments.empty() || !rest.segments.back().empty()) rest.segments.emplace_back();
  up = std::move(rest);
  Link& link = Between(connection->process, connection->address);
  for (size_t i = 0; i < up.segments.size(); ++i) Schedule(id, /*up=*/true, link, 0);
  socket->Failed(ECONNRESET);
  EndIfOver(id);
}

void Network::Swallow(uint64_t id) {
  Connection* const connection = Find(id);
  if (connection == nullptr) return;
  connection->down.held = true;
  EndBySilence(id);
}

void Network::EndBySilence(uint64_t id) {
  kernel_.After(kMostSilence, [this, id] { Cut(id, 0); });
}

std::vector<uint64_t> Network::ConnectionsOf(Process* process, Address address) const {
  std::vector<uint64_t> found;
  for (const auto& [id, each] : connections_) {
    if (each.process == process && each.address == address) found.push_back(id);
  }
  return found;
}

std::vector<uint64_t> Network::Connections() const {
  std::vector<uint64_t> found;
  for (const auto& [id, each] : connections_) {
    if (each.socket != nullptr) found.push_back(id);
  }
  return found;
}

Process* Network::ProcessOf(uint64_t connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : found->second.process;
}

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
