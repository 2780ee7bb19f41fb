#ifndef REDLATCH_TESTS_SIM_WORLD_SERVER_GROUP_H_
#define REDLATCH_TESTS_SIM_WORLD_SERVER_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/net/network.h"
#include "tests/sim/os/kernel.h"
#include "tests/sim/random.h"
#include "tests/sim/redis/redis_server.h"
#include "tests/sim/world/oracle.h"
#include "tests/sim/world/plan.h"

namespace redlatch::sim {

// The words of RESP on one line, without lengths.
std::string InWords(std::string_view bytes);

// A machine that runs a Redis server: its address, its clock, and its faults.
class Host final : public Server, public Sink {
 public:
  Host(Kernel& kernel, Network& network, Address address, ServerOptions options, Clock clock);

  // The server, with its clock up to date.
  RedisServer& redis();
  Address address() const { return address_; }
  // Only while it is down.
  void SetAddress(Address address) { address_ = address; }
  bool up() const { return up_; }
  bool hangs() const { return busy_until_ > kernel_.now(); }
  Clock& clock() { return clock_; }
  uint64_t commands() const { return commands_before_ + redis_->counts().commands; }
  uint64_t scripts() const { return scripts_before_ + redis_->counts().scripts; }

  // Called for each server that starts here, including the current one.
  void Prepare(std::function<void(RedisServer& redis)> prepare);
  // Called after the server has executed what it received.
  void OnExecuted(std::function<void()> told) { executed_ = std::move(told); }
  // A replica has told this primary its offset.
  void Acked(uint64_t replica, int64_t offset);
  // If `few`, the primary refuses writes because it has too few replicas.
  void SetFewReplicas(bool few);
  bool few_replicas() const { return few_replicas_; }

  // The server has an append-only file, of which it writes a part to the disk now and then.
  void KeepFile(Random random) { file_.emplace(random); }
  void HangDisk(int64_t length) { disk_hangs_until_ = kernel_.now() + length; }
  const Keyspace& on_disk() const { return on_disk_; }

  // The process hangs for that long, and reads nothing.
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
  void WriteToDisk();
  void EndWaits();

  Kernel& kernel_;
  Network& network_;
  Address address_;
  ServerOptions options_;
  Clock clock_;
  std::unique_ptr<RedisServer> redis_;
  bool up_ = true;
  int64_t busy_until_ = 0;
  // The commands of the servers that ran here before.
  uint64_t commands_before_ = 0;
  uint64_t scripts_before_ = 0;
  std::function<void(RedisServer& redis)> prepare_;
  std::function<void()> executed_;
  bool few_replicas_ = false;
  int64_t ends_wait_at_ = kNever;  // the wait of a client for replicas
  std::optional<Random> file_;     // decides how long the disk takes
  bool writes_ = false;
  uint64_t starts_ = 0;
  int64_t disk_hangs_until_ = 0;
  Keyspace on_disk_;
};

// What a server group knows of the rest of the world.
struct Surroundings {
  Kernel& kernel;
  Network& network;
  Oracle& oracle;
  const Plan& plan;
  std::function<std::vector<Process*>()> clients;
};

// The servers of one run: their relations, where clients find them, and the faults that only such a
// group can have. This class is the group of servers that know nothing about each other: a single
// one, or those of a quorum.
class ServerGroup {
 public:
  static std::unique_ptr<ServerGroup> Make(const Surroundings& world);

  explicit ServerGroup(const Surroundings& world);
  virtual ~ServerGroup() = default;
  ServerGroup(const ServerGroup&) = delete;
  ServerGroup& operator=(const ServerGroup&) = delete;

  const std::vector<std::unique_ptr<Host>>& hosts() const { return hosts_; }
  virtual std::string Url() const;
  // For each process's other client.
  virtual std::string OtherUrl() const { return Url(); }
  // All addresses to which clients connect.
  virtual std::vector<Address> Addresses() const;
  // The server that a fault is about.
  virtual Host& HostOf(const Fault& fault) { return *hosts_[static_cast<size_t>(fault.server)]; }
  // Returns true if the group forgets what this server forgets.
  virtual bool Decides(const Host&) const { return true; }
  // Does what is due, now and then while the run lasts.
  virtual void Tick() {}
  // A fault that only such groups have; others are ignored.
  virtual void Inject(const Fault&) {}
  // The process of a server ends, and another one starts.
  virtual void GoDown(Host& host, bool silently) { host.GoDown(silently); }
  virtual void ComeUp(Host& host, const Keyspace& data) { host.ComeUp(data); }

 protected:
  // The i-th server is at 10.0.0.1 + i, port 6379.
  static Address AddressOf(size_t i);
  Host& AddHost(ServerOptions options, Clock clock);

  Surroundings world_;
  Random random_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_SERVER_GROUP_H_
