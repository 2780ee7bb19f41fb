#include "tests/sim/world/replicated_group.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/trace.h"

namespace redlatch::sim {

namespace {

constexpr int64_t kBacklog = 100;  // entries from which a replica may continue

std::string HostText(Address address) {
  const std::string text = ToString(address);
  return text.substr(0, text.find(':'));
}

Role ReplicaOf(const Host& primary, bool link_up) {
  return {.primary_host = HostText(primary.address()),
          .primary_port = primary.address().port,
          .link_up = link_up};
}

}  // namespace

Replication::Replication(Kernel& kernel, const std::vector<std::unique_ptr<Host>>& hosts,
                         size_t count, Random random, bool acks)
    : kernel_(kernel), hosts_(hosts), random_(random), acks_(acks), links_(count) {}

int64_t Replication::Lag() {
  if (random_.OneIn(20)) return random_.Between(0, 20 * kMilli);
  return random_.Between(30 * kMicro, 300 * kMicro);
}

void Replication::Break(size_t replica) {
  Link& link = links_[replica];
  if (link.primary != kNone && hosts_[link.primary]->up()) {
    hosts_[link.primary]->redis().RemoveReplica(replica);
  }
  link.in_step = false;
  link.ack_in_flight = false;
  link.acked = 0;
  ++link.connection;
}

void Replication::Follow(size_t replica, size_t primary) {
  Break(replica);
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].primary == replica) Break(i);
  }
  links_[replica].primary = primary;
  Trace::Say(ToString(hosts_[replica]->address()), " becomes a replica of ",
             ToString(hosts_[primary]->address()));
  hosts_[replica]->redis().SetRole(ReplicaOf(*hosts_[primary], /*link_up=*/false));
}

void Replication::Promote(size_t replica) {
  Break(replica);
  links_[replica].primary = kNone;
  Trace::Say(ToString(hosts_[replica]->address()), " is promoted, with offset ",
             hosts_[replica]->redis().offset());
  hosts_[replica]->redis().SetRole({});
}

void Replication::Restarted(size_t host) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (i == host || links_[i].primary == host) Break(i);
  }
  const size_t primary = links_[host].primary;
  if (primary == kNone || !hosts_[host]->up()) return;
  hosts_[host]->redis().SetRole(ReplicaOf(*hosts_[primary], /*link_up=*/false));
}

bool Replication::Open(size_t replica) const {
  const Link& link = links_[replica];
  if (link.primary == kNone || link.held || link.isolated || links_[link.primary].isolated) {
    return false;
  }
  const Host& from = *hosts_[link.primary];
  const Host& to = *hosts_[replica];
  return from.up() && to.up() && !from.hangs() && !to.hangs();
}

void Replication::Connect() {
  for (size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (!Open(i) || hosts_[link.primary]->redis().role().is_replica()) continue;
    if (!link.in_step) {
      RedisServer& primary = hosts_[link.primary]->redis();
      const bool continued = hosts_[i]->redis().SynchroniseWith(primary);
      Trace::Say(ToString(hosts_[i]->address()), continued ? " continues" : " copies all", " from ",
                 ToString(hosts_[link.primary]->address()), ", at offset ",
                 hosts_[i]->redis().offset());
      hosts_[i]->redis().SetRole(ReplicaOf(*hosts_[link.primary], /*link_up=*/true));
      link.in_step = true;
      if (acks_) hosts_[link.primary]->Acked(i, hosts_[i]->redis().offset());
    }
    Carry(i);
  }
}

void Replication::Written(size_t primary) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].primary == primary) Carry(i);
  }
}

void Replication::Carry(size_t replica) {
  Link& link = links_[replica];
  if (!link.in_step || link.ack_in_flight || !Open(replica)) return;
  const int64_t offset = hosts_[link.primary]->redis().offset();
  if (hosts_[replica]->redis().offset() >= offset) return;
  link.ack_in_flight = true;
  kernel_.After(Lag(), [this, replica, connection = link.connection, offset] {
    Arrive(replica, connection, offset);
  });
}

void Replication::Arrive(size_t replica, uint64_t connection, int64_t offset) {
  Link& link = links_[replica];
  if (link.connection != connection) return;
  link.ack_in_flight = false;
  if (!Open(replica)) return;
  RedisServer& from = hosts_[link.primary]->redis();
  RedisServer& to = hosts_[replica]->redis();
  const Log& log = from.log();
  for (int64_t next = to.offset() + 1; next <= offset; ++next) {
    to.Apply(log[static_cast<size_t>(next - log.front().offset)]);
  }
  int64_t all_have = to.offset();
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].primary != link.primary || !links_[i].in_step) continue;
    all_have = std::min(all_have, hosts_[i]->redis().offset());
  }
  from.TrimLog(all_have - kBacklog);
  to.TrimLog(to.offset() - kBacklog);
  if (acks_) {
    kernel_.After(Lag(), [this, replica, connection, offset] {
      Link& its = links_[replica];
      if (its.connection != connection || !Open(replica) || offset <= its.acked) return;
      its.acked = offset;
      hosts_[its.primary]->Acked(replica, offset);
    });
  }
  Carry(replica);
}

namespace {

constexpr int64_t kDownAfter = kSecond;   // after that time a server counts as gone
constexpr int64_t kLongestLag = kSecond;  // min-replicas-max-lag
constexpr int64_t kCountEach = 900 * kMilli;

}  // namespace

ReplicatedGroup::ReplicatedGroup(const Surroundings& world, size_t shards, size_t servers,
                                 bool cluster)
    : ServerGroup(world),
      replication_(world.kernel, hosts_, servers, random_.Fork(), UsesAcks(world.plan)),
      nodes_(servers) {
  for (size_t i = 0; i < servers; ++i) {
    ServerOptions options;
    options.cluster = cluster;
    // The clocks are equal: tokens grow across a failover only if the new primary's clock is not
    // behind.
    AddHost(std::move(options), world.plan.server_clock);
    host(i).Prepare(PrepareServer);
    host(i).OnExecuted([this, i] { replication_.Written(i); });
    nodes_[i].seen = nodes_[i].replica_seen = now();
    if (i < shards) primaries_.push_back(i);
  }
  for (size_t i = shards; i < servers; ++i) replication_.Follow(i, ShardOf(i));
  replication_.Connect();
}

void ReplicatedGroup::PrepareServer(RedisServer& redis) {
  redis.KeepLog(true);
  redis.Execute({"CONFIG", "SET", "min-replicas-max-lag", "1"});
}

size_t ReplicatedGroup::IndexOf(const Host& host) const {
  return static_cast<size_t>(
      std::find_if(hosts_.begin(), hosts_.end(),
                   [&host](const auto& each) { return each.get() == &host; }) -
      hosts_.begin());
}

// Mostly a primary, since its faults matter most.
Host& ReplicatedGroup::HostOf(const Fault& fault) {
  const size_t shard = static_cast<size_t>(fault.server) % shards();
  if (fault.detail % 4 != 0) return host(PrimaryOf(shard));
  return host((shard + shards() * (fault.detail / 4)) % hosts_.size());
}

bool ReplicatedGroup::Reachable(size_t node) const {
  return host(node).up() && !host(node).hangs() && !nodes_[node].isolated;
}

int64_t ReplicatedGroup::AWhile() {
  return random_.OneIn(4) ? random_.Between(0, 2 * kSecond) : random_.Between(0, 200 * kMilli);
}

// Redisson's free permits, and those that programs have, are two keys. If a primary fails soon
// after a slot has moved to it, its replica may have only one of them, and permits are lost. This
// adds them again, as people would.
void ReplicatedGroup::AddLostPermits(const SharedObject& object, RedisServer& before,
                                     RedisServer& after) {
  const bool ours = object.redisson == Redisson::kSemaphore;
  if (!ours && object.redisson != Redisson::kExpirableSemaphore) return;
  const std::string key = world_.plan.KeyOf(object);
  const std::string taken = ours ? absl::StrCat("redlatch:2:{", key, "}:redisson.permits")
                                 : absl::StrCat("{", key, "}:timeout");
  const auto permits = [&](RedisServer& server) {
    Keyspace keys = server.TakeSnapshot().keys;
    int64_t free = 0;
    const auto* const number = std::get_if<std::string>(keys.Find(key));
    if (number == nullptr || !absl::SimpleAtoi(*number, &free)) return object.capacity;
    const auto* const set = std::get_if<SortedSet>(keys.Find(taken));
    return free + (set == nullptr ? 0 : static_cast<int64_t>(set->members().size()));
  };
  const int64_t lost = permits(before) - permits(after);
  if (lost > 0) after.Execute({"INCRBY", key, absl::StrCat(lost)});
}

void ReplicatedGroup::LostHolds(size_t before, bool acks_protect, bool quarantine_protects) {
  // Living clients repeat the counts of the latches that the new primary has.
  const Plan& plan = world_.plan;
  RedisServer& old = host(before).redis();
  RedisServer& chosen = host(PrimaryOf(ShardOf(before))).redis();
  const bool repeated =
      !UsesRedisson(plan) && !plan.Has(FaultKind::kCrash) && !plan.Has(FaultKind::kCrashMany);
  const bool keeps_latches =
      repeated && std::none_of(plan.objects.begin(), plan.objects.end(), [&](const auto& each) {
        return each.kind == Kind::kLatch && old.Has(plan.KeyOf(each)) &&
               !chosen.Has(plan.KeyOf(each));
      });
  const int64_t until = now() + LongestLease(plan) + 100 * kMilli;
  world_.oracle.FailedOver(until, acks_protect, quarantine_protects && plan.quarantine_ms > 0,
                           keeps_latches);
  for (const SharedObject& object : plan.objects) {
    AddLostPermits(object, old, chosen);
  }
  if (!plan.brief) return;
  // No server was to fail, but several faults together had the same effect. What was released last
  // may be held for a lease.
  for (const SharedObject& object : plan.objects) {
    for (const std::string& name : object.Names()) world_.oracle.Excuse(name, until);
  }
}

void ReplicatedGroup::GoDown(Host& host, bool silently) {
  FinishMoves(ShardOf(IndexOf(host)));
  host.GoDown(silently);
  replication_.Restarted(IndexOf(host));
}

void ReplicatedGroup::ComeUp(Host& host, const Keyspace& data) {
  host.ComeUp(data);
  const size_t i = IndexOf(host);
  replication_.Restarted(i);
  // It has no replica yet.
  nodes_[i].replica_seen = 0;
  CountReplicas(i);
  Returned(i);
}

void ReplicatedGroup::Tick() {
  const bool counts = next_count_ <= now();
  if (counts) next_count_ = now() + kCountEach;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Look(i);
    if (counts) CountReplicas(i);
  }
  for (size_t shard = 0; shard < shards(); ++shard) Watch(shard);
  replication_.Connect();
}

void ReplicatedGroup::Look(size_t i) {
  Node& node = nodes_[i];
  const bool hung = host(i).hangs();
  if (hung && now() - node.seen > kDownAfter) node.hung_long = true;
  if (std::exchange(node.hung, hung) && !hung) Returned(i);
  if (Reachable(i)) node.seen = now();
  const bool primary_here = host(i).up() && !host(i).redis().role().is_replica();
  if (IsPrimary(i) || !primary_here) node.hung_long = false;
  if (IsPrimary(i)) return;
  // An old primary still grants.
  if (primary_here) LostHolds(i, true, !node.hung_long);
  if (!Reachable(i) || replication_.PrimaryOf(i) == PrimaryOf(ShardOf(i))) return;
  if (node.demoted_at == kNever) node.demoted_at = now() + AWhile();
  if (now() < node.demoted_at) return;
  node.demoted_at = kNever;
  replication_.Follow(i, PrimaryOf(ShardOf(i)));
  Demoted(i);
}

void ReplicatedGroup::CountReplicas(size_t i) {
  if (!world_.plan.min_replicas || !host(i).up()) return;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (replication_.PrimaryOf(k) == i && replication_.Connected(k)) nodes_[i].replica_seen = now();
  }
  host(i).SetFewReplicas(now() - nodes_[i].replica_seen > kLongestLag);
}

void ReplicatedGroup::Watch(size_t shard) {
  if (now() - nodes_[PrimaryOf(shard)].seen <= kDownAfter || !MayPromote(shard)) return;
  Promote(shard);
}

void ReplicatedGroup::Promote(size_t shard) {
  FinishMoves(shard);
  std::vector<size_t> candidates;
  for (size_t i = shard; i < nodes_.size(); i += shards()) {
    const bool follows = replication_.PrimaryOf(i) == PrimaryOf(shard) && replication_.InStep(i);
    if (follows && Reachable(i)) candidates.push_back(i);
  }
  if (candidates.empty()) return;
  const size_t chosen = candidates[random_.Below(candidates.size())];
  const size_t before = std::exchange(primaries_[shard], chosen);
  replication_.Promote(chosen);
  nodes_[chosen].replica_seen = now();
  LostHolds(before, MayTrustAcks(shard), true);
  Promoted(shard, before);
}

void ReplicatedGroup::Inject(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kFailover:
      return FailOver(fault);
    case FaultKind::kTwoPrimaries:
      return Divide(fault);
    case FaultKind::kReplicaLag: {
      const size_t i = shards() + fault.detail % (nodes_.size() - shards());
      replication_.Hold(i, true);
      return world_.kernel.After(fault.length_ms * kMilli,
                                 [this, i] { replication_.Hold(i, false); });
    }
    default:
      return;
  }
}

// Promotes a replica that has not received the last writes, on demand or because its primary has
// crashed.
void ReplicatedGroup::FailOver(const Fault& fault) {
  const size_t shard = static_cast<size_t>(fault.server) % shards();
  constexpr int64_t kLags[] = {0, 5, 50, 300};
  const int64_t lag = kLags[fault.detail / 2 % 4] * kMilli;
  for (size_t i = shard; i < nodes_.size(); i += shards()) replication_.Hold(i, true);
  world_.kernel.After(lag, [this, shard, &fault] {
    const size_t primary = PrimaryOf(shard);
    if (fault.detail % 2 == 0 && Reachable(primary) && MayPromote(shard)) Promote(shard);
    if (fault.detail % 2 != 0) Crash(primary, fault);
    for (size_t i = shard; i < nodes_.size(); i += shards()) replication_.Hold(i, false);
  });
}

void ReplicatedGroup::Crash(size_t node, const Fault& fault) {
  if (!host(node).up()) return;
  GoDown(host(node), fault.detail / 8 % 2 == 0);
  world_.kernel.After(fault.length_ms * kMilli + kDownAfter,
                      [this, node] { ComeUp(host(node), host(node).redis().TakeSnapshot().keys); });
}

// A primary is cut off from the other servers. Each client reaches either side, or both.
void ReplicatedGroup::Divide(const Fault& fault) {
  const size_t cut_off = PrimaryOf(static_cast<size_t>(fault.server) % shards());
  FinishMoves(ShardOf(cut_off));
  std::vector<Address> minority = OnMinoritySide(cut_off);
  minority.push_back(host(cut_off).address());
  std::vector<std::pair<Process*, Address>> links;
  uint64_t sides = fault.detail / 16;
  for (Process* const client : world_.clients()) {
    const uint64_t side = sides % 4;
    sides /= 4;
    for (const Address& each : Addresses()) {
      const bool within = std::find(minority.begin(), minority.end(), each) != minority.end();
      if (side == 2 ? within : side == 3 && !within) links.emplace_back(client, each);
    }
  }
  nodes_[cut_off].isolated = true;
  replication_.Isolate(cut_off, true);
  Separate(links, true);
  world_.kernel.After(fault.length_ms * kMilli + kDownAfter, [this, cut_off, links] {
    nodes_[cut_off].isolated = false;
    replication_.Isolate(cut_off, false);
    Separate(links, false);
    Returned(cut_off);
  });
}

void ReplicatedGroup::Separate(const std::vector<std::pair<Process*, Address>>& links, bool held) {
  for (const auto& [client, address] : links) {
    Link& link = world_.network.Between(client, address);
    link.up_held = link.down_held = held;
    if (!held) world_.network.LinkChanged(client, address);
  }
}

}  // namespace redlatch::sim
