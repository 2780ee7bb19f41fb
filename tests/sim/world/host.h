#ifndef REDLATCH_TESTS_SIM_WORLD_HOST_H_
#define REDLATCH_TESTS_SIM_WORLD_HOST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tests/sim/net/network.h"
#include "tests/sim/os/kernel.h"
#include "tests/sim/redis/redis_server.h"

namespace redlatch::sim {

// A machine on which a Redis server runs: its address, its clock, and what happens to it.
class Host final : public Server, public Sink {
 public:
  Host(Kernel& kernel, Network& network, Address address, ServerOptions options, Clock clock);

  // The server, with its clock up to date.
  RedisServer& redis();
  Address address() const { return address_; }
  bool up() const { return up_; }
  Clock& clock() { return clock_; }
  uint64_t scripts() const { return scripts_before_ + redis_->counts().scripts; }

  // The process hangs for that long: it reads nothing.
  void Stop(int64_t length) { busy_until_ = kernel_.now() + length; }
  void GoDown(bool silently);
  // Another process starts at the address, with these data.
  void ComeUp(const Keyspace& data);

  // Server.
  void Connected(uint64_t connection) override { redis().Connect(connection); }
  void Received(uint64_t connection, std::string_view bytes) override;
  void Disconnected(uint64_t connection) override { redis().Disconnect(connection); }
  int64_t busy_until() const override { return busy_until_; }
  // Sink.
  void Send(uint64_t connection, std::string_view bytes) override;
  void Close(uint64_t connection) override;

 private:
  Kernel& kernel_;
  Network& network_;
  const Address address_;
  ServerOptions options_;
  Clock clock_;
  std::unique_ptr<RedisServer> redis_;
  bool up_ = true;
  int64_t busy_until_ = 0;
  uint64_t scripts_before_ = 0;  // of the servers that ran here before
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_HOST_H_
