#ifndef REDLATCH_TESTS_SIM_WORLD_REPLICATED_GROUP_H_
#define REDLATCH_TESTS_SIM_WORLD_REPLICATED_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/sim/os/kernel.h"
#include "tests/sim/random.h"
#include "tests/sim/world/server_group.h"

namespace redlatch::sim {

// Carries a primary's writes to its replicas with a delay, and their offsets back. Writes in flight
// on a broken link are lost.
class Replication {
 public:
  // `count` of these `hosts` will exist. `acks`: clients wait for replicas, so a primary must know
  // their offsets.
  Replication(Kernel& kernel, const std::vector<std::unique_ptr<Host>>& hosts, size_t count,
              Random random, bool acks);

  // The server becomes a replica, and synchronises as soon as both are up.
  void Follow(size_t replica, size_t primary);
  // The replica becomes a primary, with the data it has.
  void Promote(size_t replica);
  // Stops the stream to that replica, or continues it.
  void Hold(size_t replica, bool held) { links_[replica].held = held; }
  // Cuts a server off from the others, or connects it again.
  void Isolate(size_t host, bool isolated) { links_[host].isolated = isolated; }
  // The server's process has ended, or another has started.
  void Restarted(size_t host);
  // The server has executed something.
  void Written(size_t primary);
  // Makes all connections that are possible.
  void Connect();

  static constexpr size_t kNone = SIZE_MAX;
  size_t PrimaryOf(size_t replica) const { return links_[replica].primary; }
  // Returns true if the replica had all data of its primary at some moment since it follows it.
  bool InStep(size_t replica) const { return links_[replica].in_step; }
  // Returns true if the primary receives the replica's offsets.
  bool Connected(size_t replica) const { return InStep(replica) && Open(replica); }

 private:
  struct Link {
    size_t primary = kNone;
    bool in_step = false;
    bool held = false;
    bool isolated = false;
    bool ack_in_flight = false;
    int64_t acked = 0;        // the offset that the primary was told
    uint64_t connection = 0;  // counts them
  };

  bool Open(size_t replica) const;
  void Break(size_t replica);
  void Carry(size_t replica);
  void Arrive(size_t replica, uint64_t connection, int64_t offset);
  int64_t Lag();

  Kernel& kernel_;
  const std::vector<std::unique_ptr<Host>>& hosts_;
  Random random_;
  const bool acks_;
  std::vector<Link> links_;  // by replica
};

// Shards of a primary and its replicas. If a primary cannot be reached for a second, one of its
// replicas is promoted. When the old primary can be reached again, it becomes a replica.
class ReplicatedGroup : public ServerGroup {
 public:
  Host& HostOf(const Fault& fault) override;
  bool Decides(const Host& host) const override { return IsPrimary(IndexOf(host)); }
  void Tick() override;
  void Inject(const Fault& fault) override;
  void GoDown(Host& host, bool silently) override;
  void ComeUp(Host& host, const Keyspace& data) override;

 protected:
  // Server i belongs to shard i modulo `shards`; the first of each is its primary.
  ReplicatedGroup(const Surroundings& world, size_t shards, size_t servers, bool cluster);

  static void PrepareServer(RedisServer& redis);

  struct Node {
    int64_t seen = 0;             // when the others last reached it
    int64_t replica_seen = 0;     // when a replica last reached it
    int64_t demoted_at = kNever;  // when it is told to follow the primary
    bool isolated = false;
    bool hung = false;  // at the previous tick
    bool hung_long = false;
  };

  size_t shards() const { return primaries_.size(); }
  size_t ShardOf(size_t node) const { return node % shards(); }
  size_t PrimaryOf(size_t shard) const { return primaries_[shard]; }
  bool IsPrimary(size_t node) const { return PrimaryOf(ShardOf(node)) == node; }
  size_t IndexOf(const Host& host) const;
  bool Reachable(size_t node) const;
  const Node& node(size_t i) const { return nodes_[i]; }
  Host& host(size_t i) const { return *hosts_[i]; }
  int64_t now() const { return world_.kernel.now(); }
  // A random time, mostly short.
  int64_t AWhile();

  // Returns true if enough servers can agree on a promotion.
  virtual bool MayPromote(size_t) { return true; }
  virtual void Promoted(size_t shard, size_t before) = 0;
  virtual void Demoted(size_t node) = 0;
  // A server can be reached again.
  virtual void Returned(size_t node) = 0;
  // Addresses at which clients of the minority find a server that does not know of the promotion.
  virtual std::vector<Address> OnMinoritySide(size_t node) = 0;
  void AddLostPermits(const SharedObject& object, RedisServer& before, RedisServer& after);
  // Holds may be lost, except those that acks or a quarantine protect.
  void LostHolds(size_t before, bool acks_protect, bool quarantine_protects);
  // Returns true if the replicas had everything that was acknowledged.
  virtual bool MayTrustAcks(size_t) { return true; }
  // Completes the moves of slots to or from that shard.
  virtual void FinishMoves(size_t) {}

 private:
  void Look(size_t i);
  void CountReplicas(size_t i);
  void Watch(size_t shard);
  void Promote(size_t shard);
  void FailOver(const Fault& fault);
  void Crash(size_t node, const Fault& fault);
  void Divide(const Fault& fault);
  void Separate(const std::vector<std::pair<Process*, Address>>& links, bool held);

  Replication replication_;
  std::vector<size_t> primaries_;  // by shard
  std::vector<Node> nodes_;
  int64_t next_count_ = 0;  // of replicas
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_REPLICATED_GROUP_H_
