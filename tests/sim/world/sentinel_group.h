#ifndef REDLATCH_TESTS_SIM_WORLD_SENTINEL_GROUP_H_
#define REDLATCH_TESTS_SIM_WORLD_SENTINEL_GROUP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/net/network.h"
#include "tests/sim/redis/command.h"
#include "tests/sim/world/replicated_group.h"

namespace redlatch::sim {

// A Redis Sentinel as clients see it: it replies with the primary that it knows, and publishes each
// change. Any command that the library does not need ends the run.
class Sentinel final : public Server {
 public:
  static constexpr const char* kPrimaryName = "locks";

  Sentinel(Network& network, Address address, const std::vector<Address>& all, Address primary);

  Address address() const { return address_; }
  int64_t epoch() const { return epoch_; }
  bool up() const { return up_; }
  // It has learnt that another server is the primary.
  void Switch(Address primary, int64_t epoch);
  void GoDown(bool silently);
  void ComeUp();

  // Server.
  void Connected(uint64_t connection) override { clients_[connection]; }
  void Received(uint64_t connection, std::string_view bytes) override;
  void Disconnected(uint64_t connection) override { clients_.erase(connection); }

 private:
  struct Client {
    std::string input;
    std::set<std::string> channels;
    int protocol = kResp2;
  };

  void Execute(Client& client, Words words, Output& out);
  void ExecuteSentinel(Words words, Output& out) const;
  std::string Id(Address sentinel) const;

  Network& network_;
  const Address address_;
  std::vector<Address> others_;
  Address primary_;
  int64_t epoch_ = 0;
  bool up_ = true;
  std::map<uint64_t, Client> clients_;
};

// A primary with two replicas, and three sentinels. Two sentinels decide on a promotion; each
// publishes it once it is told.
class SentinelGroup final : public ReplicatedGroup {
 public:
  explicit SentinelGroup(const Surroundings& world);

  std::string Url() const override;
  std::vector<Address> Addresses() const override;
  void Tick() override;
  void Inject(const Fault& fault) override;

 private:
  struct Watcher {
    std::unique_ptr<Sentinel> sentinel;
    size_t isolated_with;  // the server that it is cut off with; the number of servers: none
    int64_t told_at = 0;   // when it is told of the last promotion
  };

  bool MayPromote(size_t shard) override;
  void Promoted(size_t shard, size_t before) override;
  void Demoted(size_t node) override;
  void Returned(size_t node) override;
  std::vector<Address> OnMinoritySide(size_t node) override;
  bool Sees(const Watcher& watcher) const;

  std::vector<Watcher> watchers_;
  int64_t epoch_ = 0;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_SENTINEL_GROUP_H_
