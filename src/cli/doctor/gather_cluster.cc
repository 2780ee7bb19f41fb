#include "src/cli/doctor/gather_cluster.h"

#include <algorithm>
#include <bitset>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/clock.h"
#include "src/cli/doctor/answers.h"
#include "src/cli/doctor/gather.h"
#include "src/cli/term/for_each.h"
#include "src/cli/term/shards.h"
#include "src/engine/protocol/key_set.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

using redis::Command;
using redis::PlainConnection;
using redis::Reply;

// Nodes that are looked at together.
constexpr size_t kAtOnce = 8;

using Slots = std::bitset<redis::kSlots>;

std::string RangesOf(const Slots& slots) {
  std::string text;
  for (size_t first = 0; first < slots.size(); ++first) {
    if (!slots.test(first)) continue;
    size_t last = first;
    while (last + 1 < slots.size() && slots.test(last + 1)) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ", ", first);
    if (last > first) absl::StrAppend(&text, "-", last);
    first = last;
  }
  return text;
}

Told<std::vector<ClusterLine>> NodesAnswer(const Reply& reply, const std::string& node) {
  if (reply.is_error()) return redis::ErrorStatus(reply.text, node);
  return ReadClusterNodes(reply.text);
}

void AskSeed(const redis::Url& url, const redis::HostAndPort& node, SeedFacts* seed) {
  seed->address = node.text();
  const base::Instant deadline = base::Now() + url.connect_timeout + url.command_timeout;
  auto connection = PlainConnection::Open(redis::UrlOfNode(url, node), deadline);
  seed->reached = connection.status();
  if (!connection.ok()) return;
  const Command questions[] = {Command{"CLUSTER", "SLOTS"}, Command{"CLUSTER", "NODES"}};
  const auto answers = connection->CallAll(questions, deadline);
  seed->reached = answers.status();
  if (!answers.ok()) return;
  if ((*answers)[0].is_error()) {
    seed->reached = redis::ErrorStatus((*answers)[0].text, seed->address);
    return;
  }
  for (const Reply& range : (*answers)[0].elements) {
    if (range.elements.size() < 3 || range.elements[2].elements.size() < 3) continue;
    seed->primaries.insert(range.elements[2].elements[2].text);
  }
  const auto lines = NodesAnswer((*answers)[1], seed->address);
  if (!lines.ok()) return;
  for (const ClusterLine& line : *lines) {
    if (line.flags.contains("myself")) seed->announced = line.address;
  }
}

Slots ServedIn(const redis::ClusterView& view) {
  Slots served;
  for (const Shard& shard : ShardsOf(view)) served |= shard.slots;
  return served;
}

// `served`: those that somebody serves, as this node knows.
void LookAtNode(const Patient& patient, absl::Duration longest, NodeFacts* node, Slots* served) {
  node->facts.server = patient.url.DebugString();
  const base::Instant deadline =
      base::Now() + patient.url.connect_timeout + patient.url.command_timeout;
  auto connection = PlainConnection::Open(patient.url, deadline);
  node->reached = connection.status();
  if (!connection.ok()) return;
  const Command questions[] = {Command{"CLUSTER", "INFO"}, Command{"CLUSTER", "NODES"},
                               Command{"CLUSTER", "SLOTS"}};
  const auto answers = connection->CallAll(questions, deadline);
  node->reached = answers.status();
  if (!answers.ok()) return;
  const auto view = redis::ReadView((*answers)[2], (*answers)[0], {});
  if (view.ok()) *served = ServedIn(*view);
  node->state = InfoAnswer((*answers)[0]);
  node->nodes = NodesAnswer((*answers)[1], node->address);
  node->reached = Gather(patient, base::Now() + longest, &node->facts);
}

}  // namespace

absl::Status GatherCluster(const redis::Url& url, const std::string& url_text,
                           const std::string& prefix, absl::Duration longest, ClusterFacts* facts) {
  facts->server = url.DebugString();
  if (absl::Status bad = engine::CheckMainKey(prefix + "redlatch-doctor:0"); !bad.ok()) return bad;
  const absl::StatusOr<redis::ClusterView> view = FindCluster(url, url.nodes);
  if (!view.ok()) return view.status();
  facts->seeds.resize(url.nodes.size());
  ForEach(url.nodes.size(), kAtOnce,
          [&](size_t i) { AskSeed(url, url.nodes[i], &facts->seeds[i]); });

  const std::vector<Shard> shards = ShardsOf(*view);
  std::vector<Patient> patients;
  const auto add = [&](const redis::HostAndPort& node, const Shard& shard, Place place) {
    patients.push_back({.url = redis::UrlOfNode(url, node),
                        .url_text = url_text,
                        .prefix = prefix,
                        .place = place,
                        .shard = &shard});
    const bool is_replica = place == Place::kReplica;
    NodeFacts one;
    one.address = node.text();
    one.is_replica = is_replica;
    if (!is_replica) one.slots = RangesOf(shard.slots);
    facts->nodes.push_back(std::move(one));
  };
  for (const Shard& shard : shards) {
    add(shard.primary, shard, Place::kPrimary);
  }
  for (const Shard& shard : shards) {
    for (const redis::HostAndPort& replica : shard.replicas) add(replica, shard, Place::kReplica);
  }
  std::vector<Slots> served(patients.size(), ServedIn(*view));
  ForEach(patients.size(), kAtOnce,
          [&](size_t i) { LookAtNode(patients[i], longest, &facts->nodes[i], &served[i]); });
  Slots unserved;
  for (const Slots& each : served) unserved |= ~each;
  facts->unserved = unserved.count();
  facts->unserved_slots = RangesOf(unserved);
  return absl::OkStatus();
}

}  // namespace redlatch::cli
