#include "tests/sim/world/replication.h"

#include <algorithm>
#include <string>

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
  link.under_way = false;
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

void Replication::GoOn() {
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
  if (!link.in_step || link.under_way || !Open(replica)) return;
  const int64_t offset = hosts_[link.primary]->redis().offset();
  if (hosts_[replica]->redis().offset() >= offset) return;
  link.under_way = true;
  kernel_.After(Lag(), [this, replica, connection = link.connection, offset] {
    Arrive(replica, connection, offset);
  });
}

void Replication::Arrive(size_t replica, uint64_t connection, int64_t offset) {
  Link& link = links_[replica];
  if (link.connection != connection) return;
  link.under_way = false;
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

}  // namespace redlatch::sim
