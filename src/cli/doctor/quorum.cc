// Whether the servers of a quorum are several, and enough.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/majority.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

namespace redlatch::cli {
namespace {

constexpr size_t kFewest = 3;  // servers, so that one may fail
// Nodes whose clocks differ by more agree on a token only by asking each other once more, and one
// that lost its data hands out smaller ones.
constexpr absl::Duration kApart = absl::Milliseconds(500);

using AddressSet = std::set<std::string>;

void CheckCount(const QuorumFacts& facts, Findings& findings) {
  const size_t count = facts.nodes.size();
  const size_t may_fail = (count - 1) / 2;
  if (count < kFewest) {
    findings.Warn("quorum",
                  count == 1 ? std::string("there is one server: if it fails, no lock can be taken "
                                           "or kept")
                             : absl::StrCat("there are ", count,
                                            " servers: if one fails, no lock can be taken or kept"),
                  "run three or five, on machines that fail apart");
  } else if (count % 2 == 0) {
    findings.Note("quorum",
                  absl::StrCat("there are ", count, " servers, of which ", may_fail,
                               " may fail: as of ", count - 1),
                  "add one, or do without one");
  } else {
    findings.Ok("quorum",
                absl::StrCat("there are ", count, " servers, of which ", may_fail, " may fail"));
  }
}

void CheckReached(const QuorumFacts& facts, Findings& findings) {
  size_t reached = 0;
  for (const NodeFacts& node : facts.nodes) {
    if (node.reached.ok()) {
      ++reached;
      continue;
    }
    findings.Warn(
        "servers", absl::StrCat(node.address, " could not be looked at: ", node.reached.message()),
        absl::IsUnavailable(node.reached)
            ? "start it again; one that is gone for good is to be replaced in the URLs of "
              "all clients at once"
            : "each server has users and settings of its own: make them the same");
  }
  if (reached < base::Majority(facts.nodes.size())) {
    findings.Bad("servers",
                 absl::StrCat(reached, " of ", facts.nodes.size(), " answer, and ",
                              base::Majority(facts.nodes.size()),
                              " are needed: no lock can be taken or kept"),
                 "bring the others back");
  } else if (reached == facts.nodes.size()) {
    findings.Ok("servers", absl::StrCat("all ", reached, " answer"));
  }
}

// Those of which several say the same in that field.
std::vector<AddressSet> SharedBy(const QuorumFacts& facts, std::string_view field) {
  std::map<std::string, AddressSet> by_value;
  for (const NodeFacts& node : facts.nodes) {
    const auto value = TextIn(node.facts.info, field);
    if (value) by_value[*value].insert(node.address);
  }
  std::vector<AddressSet> shared;
  for (auto& [value, who] : by_value) {
    if (who.size() > 1) shared.push_back(std::move(who));
  }
  return shared;
}

void CheckIndependence(const QuorumFacts& facts, Findings& findings) {
  const std::vector<AddressSet> same = SharedBy(facts, "run_id");
  for (const AddressSet& who : same) {
    findings.Bad("independence",
                 absl::StrCat(absl::StrJoin(who, " and "),
                              " are one and the same server, which so "
                              "has several votes"),
                 "name each server once");
  }
  bool replicate = false;
  for (const AddressSet& who : SharedBy(facts, "master_replid")) {
    if (std::ranges::find(same, who) != same.end()) continue;
    replicate = true;
    findings.Bad(
        "independence",
        absl::StrCat(absl::StrJoin(who, " and "),
                     " have the same data: one is a replica of the other, or both are of a "
                     "third"),
        "a quorum's servers must be independent: make each a primary of its own "
        "(REPLICAOF NO ONE), or take it out of the URL");
  }
  if (!same.empty() || replicate) return;
  bool told = true;
  bool all = true;
  for (const NodeFacts& node : facts.nodes) {
    all = all && node.reached.ok();
    told = told && (!node.reached.ok() || TextIn(node.facts.info, "run_id"));
  }
  if (told) {
    findings.Ok("independence", absl::StrCat("each ", all ? "" : "that answers ",
                                             "is a server of its own, and no replica of another"));
  } else {
    findings.Unchecked("independence",
                       "only INFO of all servers shows whether each is a server of its own");
  }
}

// By how much the server's clock is ahead of this machine's.
std::optional<absl::Duration> AheadOfHere(const NodeFacts& node) {
  if (node.facts.clock.empty()) return std::nullopt;
  const ClockReading& last = node.facts.clock.back();
  return last.server - (last.here - (last.received - last.sent) / 2);
}

void CheckClocks(const QuorumFacts& facts, Findings& findings) {
  const NodeFacts* first = nullptr;
  const NodeFacts* last = nullptr;
  for (const NodeFacts& node : facts.nodes) {
    const auto ahead = AheadOfHere(node);
    if (!ahead) continue;
    if (first == nullptr || *ahead < *AheadOfHere(*first)) first = &node;
    if (last == nullptr || *ahead >= *AheadOfHere(*last)) last = &node;
  }
  if (first == last) return;  // of one, or none
  const absl::Duration apart = *AheadOfHere(*last) - *AheadOfHere(*first);
  if (apart > kApart) {
    findings.Warn(
        "clocks",
        absl::StrCat(last->address, " is ", ShortTime(apart), " ahead of ", first->address,
                     ": locks take longer, and fencing tokens may fall if servers lose "
                     "their data"),
        "keep the clocks of all servers in step by NTP", {"chronyc tracking"});
  } else {
    findings.Ok("clocks", absl::StrCat("within ", ShortTime(apart), " of each other"));
  }
}

void CheckQuorumVersions(const QuorumFacts& facts, Findings& findings) {
  std::map<std::string, AddressSet> versions;
  for (const NodeFacts& node : facts.nodes) {
    const auto valkey = TextIn(node.facts.info, "valkey_version");
    const auto redis = TextIn(node.facts.info, "redis_version");
    if (valkey || redis) {
      versions[valkey ? "Valkey " + *valkey : "Redis " + *redis].insert(node.address);
    }
  }
  if (versions.size() < 2) return;
  std::vector<std::string> each;
  for (const auto& [version, who] : versions) {
    each.push_back(absl::StrCat(version, " at ", absl::StrJoin(who, ", ")));
  }
  findings.Note("versions", absl::StrCat("they differ: ", absl::StrJoin(each, "; ")));
}

}  // namespace

void CheckQuorum(const QuorumFacts& facts, Findings& findings) {
  CheckCount(facts, findings);
  CheckReached(facts, findings);
  CheckIndependence(facts, findings);
  CheckClocks(facts, findings);
  CheckQuorumVersions(facts, findings);
}

// What a server of a quorum remembers of the delay after its restart, and what the URL says.
void CheckRestartDelay(const DoctorFacts& facts, Findings& findings) {
  constexpr std::string_view kCheck = "restarts";
  const absl::Duration wanted = facts.restart_delay;
  const bool delays = wanted > absl::ZeroDuration();
  if (delays && !facts.info.ok()) {
    findings.Bad(kCheck, "this user may not run INFO, by which a restart is known",
                 "without it no vote counts", {absl::StrCat("ACL SETUSER ", facts.user, " +info")});
  }
  if (delays && absl::IsPermissionDenied(facts.delay.status())) {
    findings.Bad(kCheck,
                 "this user may not use the key redlatch:quorum, in which a restart is "
                 "remembered",
                 "grant it", {absl::StrCat("ACL SETUSER ", facts.user, " ~redlatch:quorum")});
  }
  if (facts.delay.ok() && facts.delay->length != wanted) {
    const std::string theirs = absl::FormatDuration(facts.delay->length);
    findings.Bad(kCheck,
                 absl::StrCat("others that use this server ask for a restart delay of ", theirs,
                              ", and this URL for ",
                              delays ? absl::FormatDuration(wanted) : std::string("none")),
                 absl::StrCat("say restart_delay=", theirs,
                              " in each URL; or stop all of them, and delete redlatch:quorum"));
  } else if (facts.delay.ok() && facts.delay->until > facts.looked_at) {
    findings.Note(kCheck, absl::StrCat("the server started lately, and has no vote for ",
                                       ShortTime(facts.delay->until - facts.looked_at), " more"));
  } else if (delays) {
    findings.Ok(kCheck, absl::StrCat("a server that has started has no vote for ",
                                     absl::FormatDuration(wanted)));
  }
}

}  // namespace redlatch::cli
