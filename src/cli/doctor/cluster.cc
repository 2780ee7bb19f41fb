// Whether the nodes of a cluster are one, and serve all its slots.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/cli/doctor/checks.h"

namespace redlatch::cli {
namespace {

constexpr size_t kMajority = 3;  // primaries, so that two of them can agree that the third is gone
constexpr size_t kMostSlotsNamed = 5;  // slots on the move

std::string Listed(const std::set<std::string>& all) { return absl::StrJoin(all, ", "); }

void CheckSeed(const ClusterFacts& facts, const SeedFacts& seed, Findings& findings) {
  if (absl::StrContains(seed.reached.message(), "cluster support disabled")) {
    findings.Bad("seeds", absl::StrCat(seed.address, " is no node of a cluster"),
                 "take it out of the URL");
  } else if (!seed.reached.ok()) {
    findings.Warn("seeds",
                  absl::StrCat(seed.address, " does not serve to begin with: ",
                               std::string(seed.reached.message())),
                  "mend that, or take it out of the URL; clients need one that does");
  } else if (seed.primaries.empty()) {
    findings.Bad("seeds", absl::StrCat(seed.address, " knows of no node that serves slots"),
                 "join it to the cluster, or take it out of the URL");
  }
  for (const SeedFacts& first : facts.seeds) {
    if (&first == &seed) return;
    if (!first.reached.ok() || first.primaries.empty()) continue;
    const bool apart = std::ranges::none_of(
        seed.primaries, [&](const std::string& id) { return first.primaries.contains(id); });
    if (!apart || seed.primaries.empty()) return;
    findings.Bad("seeds",
                 absl::StrCat(seed.address, " belongs to another cluster than ", first.address,
                              ": clients that begin there exclude nobody here"),
                 "take one of them out of the URL");
    return;
  }
}

void CheckSeeds(const ClusterFacts& facts, Findings& findings) {
  Findings bad;
  for (const SeedFacts& seed : facts.seeds) CheckSeed(facts, seed, bad);
  std::vector<Finding> all = bad.Take();
  if (all.empty()) {
    findings.Ok("seeds", facts.seeds.size() == 1
                             ? absl::StrCat(facts.seeds.front().address, " is one of its nodes")
                             : absl::StrCat("all ", facts.seeds.size(), " are its nodes"));
  }
  for (Finding& each : all) {
    findings.Add(each.level, each.check, std::move(each.found), std::move(each.mend), {});
  }
}

void CheckSlots(const ClusterFacts& facts, Findings& findings) {
  const auto primaries =
      static_cast<size_t>(std::ranges::count(facts.nodes, false, &NodeFacts::is_replica));
  if (facts.unserved > 0) {
    findings.Bad(
        "slots",
        absl::StrCat("nobody serves ", facts.unserved, " of them (", facts.unserved_slots,
                     "): no lock there can be taken or kept"),
        "bring their primary back; if it is lost for good, redis-cli --cluster fix HOST:PORT gives "
        "them to others, without their keys");
  } else {
    findings.Ok("slots", absl::StrCat("all are served, by ", primaries, " primaries"));
  }
  if (primaries < kMajority) {
    findings.Warn(
        "majority",
        absl::StrCat("there are ", primaries,
                     " primaries: if one fails, the others can't agree on who replaces it"),
        "run three or more, on machines that fail apart");
  }
}

using Addresses = std::map<std::string, std::string>;  // by id

Addresses AddressesIn(const ClusterFacts& facts) {
  Addresses addresses;
  for (const NodeFacts& node : facts.nodes) {
    if (!node.nodes.ok()) continue;
    for (const ClusterLine& line : *node.nodes) addresses[line.id] = line.address;
  }
  return addresses;
}

// A slot that one node gives away and the other takes is said once.
void CheckOpenSlots(const ClusterFacts& facts, const Addresses& addresses, Findings& findings) {
  std::map<int, std::string> ways;
  for (const NodeFacts& node : facts.nodes) {
    if (!node.nodes.ok()) continue;
    for (const ClusterLine& line : *node.nodes) {
      for (const OpenSlot& open : line.open) {
        const auto known = addresses.find(open.other);
        const std::string other = known == addresses.end() ? open.other : known->second;
        ways[open.slot] = open.leaving ? absl::StrCat(node.address, " to ", other)
                                       : absl::StrCat(other, " to ", node.address);
      }
    }
  }
  if (ways.empty()) {
    findings.Ok("moves", "no slot is on the move");
    return;
  }
  std::vector<std::string> named;
  for (const auto& [slot, way] : ways) {
    if (named.size() < kMostSlotsNamed) named.push_back(absl::StrCat(slot, " from ", way));
  }
  if (ways.size() > named.size()) {
    named.push_back(absl::StrCat(ways.size() - named.size(), " more"));
  }
  findings.Warn("moves",
                absl::StrCat("on the move: slot ", absl::StrJoin(named, ", "),
                             "; until it is there, locks in it can't be taken, kept or released"),
                "if nobody is moving them, end that with redis-cli --cluster fix HOST:PORT");
}

struct Flagged {
  std::set<std::string> failed;
  std::set<std::string> suspected;
  std::set<std::string> unmet;
  std::set<std::string> lost;  // ids
};

Flagged FlaggedIn(const ClusterFacts& facts) {
  Flagged flagged;
  for (const NodeFacts& node : facts.nodes) {
    if (!node.nodes.ok()) continue;
    for (const ClusterLine& line : *node.nodes) {
      if (line.flags.contains("fail")) flagged.failed.insert(line.address);
      if (line.flags.contains("fail?")) flagged.suspected.insert(line.address);
      if (line.flags.contains("handshake")) flagged.unmet.insert(line.address);
      if (line.flags.contains("noaddr")) flagged.lost.insert(line.id);
    }
  }
  for (const std::string& failed : flagged.failed) flagged.suspected.erase(failed);
  return flagged;
}

// What leads to a node that is not where it says.
std::string MapOf(const ClusterFacts& facts, const NodeFacts& node) {
  for (const SeedFacts& seed : facts.seeds) {
    if (seed.announced == node.address && seed.address != node.address) {
      return absl::StrCat("it is reached at ", seed.address, ": add map=", node.address, "/",
                          seed.address, " to the URL");
    }
  }
  return absl::StrCat("if clients reach it elsewhere, as through a tunnel, add map=", node.address,
                      "/HOST:PORT to the URL; else see its cluster-announce-ip, and the network");
}

void CheckUnreached(const ClusterFacts& facts, const NodeFacts& node, bool failed,
                    Findings& findings) {
  const std::string who =
      absl::StrCat(node.is_replica ? "the replica " : "the primary ", node.address);
  const std::string why(node.reached.message());
  const std::string so =
      node.is_replica ? ""
                      : absl::StrCat("; no lock in slots ", node.slots, " can be taken or kept");
  const Level level = node.is_replica ? Level::kWarn : Level::kBad;
  if (failed) {
    findings.Add(level, "nodes", absl::StrCat(who, " has failed", so),
                 "start it again, or replace it", {});
  } else if (absl::IsUnavailable(node.reached) && !why.starts_with("cannot connect")) {
    findings.Add(level, "nodes", absl::StrCat(who, " does not answer as it should: ", why, so), "",
                 {});
  } else if (absl::IsUnavailable(node.reached)) {
    findings.Add(level, "nodes",
                 absl::StrCat(who, " can't be reached at the address that it announces: ", why, so),
                 MapOf(facts, node), {});
  } else {
    findings.Add(level, "nodes", absl::StrCat(who, " does not let this user in: ", why, so),
                 "each node has users and settings of its own: make them the same at all nodes",
                 {});
  }
}

void CheckNodes(const ClusterFacts& facts, Findings& findings) {
  Flagged flagged = FlaggedIn(facts);
  bool well = true;
  for (const NodeFacts& node : facts.nodes) {
    const bool failed = flagged.failed.erase(node.address) > 0;
    if (node.reached.ok() && !failed) continue;
    CheckUnreached(facts, node, failed, findings);
    flagged.suspected.erase(node.address);
    well = false;
  }
  const auto warn = [&](const std::set<std::string>& who, std::string_view what,
                        const std::string& mend) {
    if (who.empty()) return;
    findings.Warn("nodes", absl::StrCat(Listed(who), std::string(what)), mend);
    well = false;
  };
  warn(flagged.failed, " counts as failed",
       "start it again; if it is gone for good and serves no slots, CLUSTER FORGET its id at each "
       "node");
  warn(flagged.suspected, " is not heard by some other nodes (pfail)",
       "check its load, and the network between the nodes' bus ports");
  warn(flagged.unmet, " is in a handshake",
       "if that lasts, the nodes can't reach each other's bus ports");
  warn(flagged.lost, " has no known address", "CLUSTER FORGET it at each node");
  if (well) {
    findings.Ok("nodes", absl::StrCat("all ", facts.nodes.size(),
                                      " can be reached where they say that they are"));
  }
}

void CheckState(const ClusterFacts& facts, Findings& findings) {
  std::set<std::string> unwell;
  for (const NodeFacts& node : facts.nodes) {
    const auto state = TextIn(node.state, "cluster_state");
    if (node.reached.ok() && state && *state != "ok") unwell.insert(node.address);
  }
  if (!unwell.empty()) {
    findings.Bad("state",
                 absl::StrCat("cluster_state is not ok at ", Listed(unwell),
                              ": no lock can be taken or kept there"),
                 "see slots and nodes; a node also says so that is cut off from most primaries");
  } else {
    findings.Ok("state", "ok at all nodes that answer");
  }
}

void CheckVersions(const ClusterFacts& facts, Findings& findings) {
  std::map<std::string, std::set<std::string>> versions;
  for (const NodeFacts& node : facts.nodes) {
    const auto valkey = TextIn(node.facts.info, "valkey_version");
    const auto redis = TextIn(node.facts.info, "redis_version");
    if (valkey) versions["Valkey " + *valkey].insert(node.address);
    if (!valkey && redis) versions["Redis " + *redis].insert(node.address);
  }
  if (versions.size() < 2) return;
  std::vector<std::string> each;
  for (const auto& [version, who] : versions) {
    each.push_back(absl::StrCat(version, " at ", Listed(who)));
  }
  findings.Warn("versions", absl::StrCat("they differ: ", absl::StrJoin(each, "; ")),
                "bring all nodes to the same, replicas before their primaries");
}

}  // namespace

void CheckCluster(const ClusterFacts& facts, Findings& findings) {
  CheckSeeds(facts, findings);
  CheckSlots(facts, findings);
  CheckState(facts, findings);
  CheckNodes(facts, findings);
  const auto told = std::ranges::find_if(
      facts.nodes, [](const NodeFacts& node) { return node.reached.ok() && !node.nodes.ok(); });
  if (told != facts.nodes.end()) {
    findings.Unchecked("moves", "only CLUSTER NODES shows slots on the move, and failed nodes", "",
                       {absl::StrCat("ACL SETUSER ", told->facts.user, " +cluster|nodes")});
  } else {
    CheckOpenSlots(facts, AddressesIn(facts), findings);
  }
  CheckVersions(facts, findings);
}

// What becomes of locks while a part of the cluster is down, by one node's settings.
void CheckCoverage(const DoctorFacts& facts, Findings& findings) {
  const auto full = TextIn(facts.config, "cluster-require-full-coverage");
  if (!full) {
    findings.Unchecked("coverage",
                       "only CONFIG shows whether a shard that fails stops the others' locks");
  } else if (*full == "yes") {
    findings.Note("coverage",
                  "cluster-require-full-coverage is yes: while one shard is down, no lock of any "
                  "can be taken, kept or released",
                  "to confine that to its own", {"CONFIG SET cluster-require-full-coverage no"});
  } else {
    findings.Ok("coverage", "a shard that is down stops its own locks only");
  }
  if (TextIn(facts.config, "cluster-allow-pubsubshard-when-down").value_or("yes") == "no") {
    findings.Note("coverage",
                  "cluster-allow-pubsubshard-when-down is no: after the cluster was down, clients "
                  "have to subscribe again before they hear of their turn",
                  "", {"CONFIG SET cluster-allow-pubsubshard-when-down yes"});
  }
}

}  // namespace redlatch::cli
