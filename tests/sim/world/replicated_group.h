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

// Carries what primaries write to their replicas, late, and back how much of it those have. What
// was on its way when a link broke is lost.
class Replication {
 public:
  // `hosts`: `count` of them, later. `acks`: whether clients wait for replicas, so that a primary
  // must know what those have.
  Replication(Kernel& kernel, const std::vector<std::unique_ptr<Host>>& hosts, size_t count,
              Random random, bool acks);

  // The server becomes a replica, and synchronises as soon as both are there.
  void Follow(size_t replica, size_t primary);
  // The replica becomes a primary, with what it has.
  void Promote(size_t replica);
  // Nothing comes through to that replica, or comes through again.
  void Hold(size_t replica, bool held) { links_[replica].held = held; }
  // A server cannot be reached by the others, or can again.
  void Isolate(size_t host, bool isolated) { links_[host].isolated = isolated; }
  // The process of that server has ended, or another has started.
  void Restarted(size_t host);
  // The server has executed something.
  void Written(size_t primary);
  // Makes connections that can be made.
  void Connect();

  static constexpr size_t kNone = SIZE_MAX;
  size_t PrimaryOf(size_t replica) const { return links_[replica].primary; }
  // Whether the replica has all that its primary had at some moment since it follows it.
  bool InStep(size_t replica) const { return links_[replica].in_step; }
  // Whether the primary hears of the replica.
  bool Connected(size_t replica) const { return InStep(replica) && Open(replica); }

 private:
  struct Link {
    size_t primary = kNone;
    bool in_step = false;
    bool held = false;
    bool isolated = false;
    bool ack_in_flight = false;
    int64_t acked = 0;        // as far as the primary has heard
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
// replicas is promoted; when the old primary can be reached again, it becomes a replica.
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
    int64_t seen = 0;             // when the others could reach it last
    int64_t replica_seen = 0;     // when it last heard of a replica
    int64_t demoted_at = kNever;  // when it is told to follow the primary
    bool isolated = false;
    bool hung = false;  // at the last look
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
  // Mostly short.
  int64_t AWhile();

  // Whether those who decide can agree on a promotion.
  virtual bool MayPromote(size_t) { return true; }
  virtual void Promoted(size_t shard, size_t before) = 0;
  virtual void Demoted(size_t node) = 0;
  // A server can be reached again.
  virtual void Returned(size_t node) = 0;
  // Where clients of the minority find somebody who does not know better.
  virtual std::vector<Address> OnMinoritySide(size_t node) = 0;
  // Holds may be lost, but for those that acks protect, or a quarantine.
  void LostHolds(bool acks_protect, bool quarantine_protects);
  // Whether the replicas had all that was acknowledged, wherever it was.
  virtual bool MayTrustAcks(size_t) { return true; }
  // Slots that move to or from that shard arrive.
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
