#ifndef REDLATCH_TESTS_SIM_WORLD_HOST_H_
#define REDLATCH_TESTS_SIM_WORLD_HOST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/sim/net/network.h"
#include "tests/sim/os/kernel.h"
#include "tests/sim/redis/redis_server.h"

namespace redlatch::sim {

// The words of RESP on one line, without those that are only lengths.
std::string InWords(std::string_view bytes);

// A machine on which a Redis server runs: its address, its clock, and what happens to it.
class Host final : public Server, public Sink {
 public:
  Host(Kernel& kernel, Network& network, Address address, ServerOptions options, Clock clock);

  // The server, with its clock up to date.
  RedisServer& redis();
  Address address() const { return address_; }
  // While it is down.
  void SetAddress(Address address) { address_ = address; }
  bool up() const { return up_; }
  bool hangs() const { return busy_until_ > kernel_.now(); }
  Clock& clock() { return clock_; }
  uint64_t commands() const { return commands_before_ + redis_->counts().commands; }
  uint64_t scripts() const { return scripts_before_ + redis_->counts().scripts; }

  // Called with each server that starts here, this one too.
  void Prepare(std::function<void(RedisServer& redis)> prepare);
  // Called after the server has executed what it received.
  void OnExecuted(std::function<void()> told) { executed_ = std::move(told); }
  // A replica has told this primary how much it has.
  void Acked(uint64_t replica, int64_t offset);
  // Whether a primary refuses writes since it has too few replicas.
  void SetFewReplicas(bool few);
  bool few_replicas() const { return few_replicas_; }

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
  void Executed();
  void EndWaits();

  Kernel& kernel_;
  Network& network_;
  Address address_;
  ServerOptions options_;
  Clock clock_;
  std::unique_ptr<RedisServer> redis_;
  bool up_ = true;
  int64_t busy_until_ = 0;
  // Of the servers that ran here before.
  uint64_t commands_before_ = 0;
  uint64_t scripts_before_ = 0;
  std::function<void(RedisServer& redis)> prepare_;
  std::function<void()> executed_;
  bool few_replicas_ = false;
  int64_t ends_wait_at_ = kNever;  // of a client that waits for replicas
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_HOST_H_
