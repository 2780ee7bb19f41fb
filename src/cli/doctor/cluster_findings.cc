// What is found at several nodes of a cluster, or servers of a quorum, is said once.
#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/cli/doctor/checks.h"

namespace redlatch::cli {
namespace {

constexpr size_t kMostNodesNamed = 6;

bool IsUnit(std::string_view word) {
  static const auto* const units = new std::set<std::string_view>{
      "µs", "ms", "s", "min", "h", "days", "bytes", "KiB", "MiB", "GiB", "TiB"};
  while (!word.empty() && (word.back() == ',' || word.back() == ')')) word.remove_suffix(1);
  return units->contains(word);
}

// A sentence without its figures.
std::string ShapeOf(const std::string& text) {
  std::string shape;
  for (const absl::string_view each : absl::StrSplit(text, ' ')) {
    const std::string_view word(each.data(), each.size());
    const bool figure = word.find_first_of("0123456789") != std::string_view::npos;
    if (IsUnit(word) && shape.ends_with("# ")) continue;
    shape.append(figure ? "#" : word).append(" ");
  }
  return shape;
}

// Figures matter only where something is to be changed.
bool Alike(const Finding& one, const Finding& other) {
  if (one.level != other.level || one.check != other.check || one.commands != other.commands) {
    return false;
  }
  const bool exactly = one.level == Level::kWarn || one.level == Level::kBad;
  return one.mend == other.mend &&
         (exactly ? one.found == other.found : ShapeOf(one.found) == ShapeOf(other.found));
}

using Nodes = std::vector<NodeFacts>;

// "all 3 primaries", "127.0.0.1:7001, 127.0.0.1:7002": of those that were looked at. `called`:
// "primaries".
std::string Where(const Finding& finding, const Nodes& nodes, std::string_view called) {
  size_t found[2] = {};   // primaries, replicas
  size_t looked[2] = {};  // likewise
  for (const NodeFacts& node : nodes) {
    if (!node.reached.ok()) continue;
    const size_t kind = node.is_replica ? 1 : 0;
    ++looked[kind];
    if (std::ranges::find(finding.nodes, node.address) != finding.nodes.end()) ++found[kind];
  }
  const size_t count = finding.nodes.size();
  const bool all[2] = {found[0] == looked[0], found[1] == looked[1]};
  std::string where;
  if (count == 1) {
    where = finding.nodes.front();
  } else if (all[0] && all[1]) {
    where = absl::StrCat("all ", count, " ", looked[1] > 0 ? "nodes" : std::string(called));
  } else if (all[0] && found[1] == 0) {
    where = absl::StrCat("all ", count, " primaries");
  } else if (all[1] && found[0] == 0) {
    where = absl::StrCat("all ", count, " replicas");
  } else {
    const auto end =
        finding.nodes.begin() + static_cast<ptrdiff_t>(std::min(count, kMostNodesNamed));
    where = absl::StrJoin(finding.nodes.begin(), end, ", ");
    if (count > kMostNodesNamed) absl::StrAppend(&where, " and ", count - kMostNodesNamed, " more");
  }
  const bool is_all = where.starts_with("all ");
  const bool some_missing = looked[0] + looked[1] < nodes.size();
  if (is_all && some_missing) where += " that answer";
  if (finding.differs) absl::StrAppend(&where, " (figures of ", finding.nodes.front(), ")");
  return where;
}

// Behind what was found of the whole.
std::vector<Finding> WithNodes(std::vector<Finding> all, const Nodes& nodes,
                               std::string_view called) {
  std::vector<Finding> merged;
  for (const NodeFacts& node : nodes) {
    if (!node.reached.ok()) continue;
    for (Finding& finding : Diagnose(node.facts)) {
      const auto same =
          std::ranges::find_if(merged, [&](const Finding& each) { return Alike(each, finding); });
      if (same != merged.end()) {
        if (same->nodes.back() != node.address) same->nodes.push_back(node.address);
        same->differs = same->differs || same->found != finding.found;
        continue;
      }
      finding.nodes = {node.address};
      // Behind what else was found of that.
      const auto last =
          std::ranges::find(merged.rbegin(), merged.rend(), finding.check, &Finding::check);
      merged.insert(last == merged.rend() ? merged.end() : last.base(), std::move(finding));
    }
  }
  for (Finding& finding : merged) {
    finding.where = Where(finding, nodes, called);
    all.push_back(std::move(finding));
  }
  return all;
}

}  // namespace

std::vector<Finding> Diagnose(const ClusterFacts& facts) {
  Findings of_cluster;
  CheckCluster(facts, of_cluster);
  return WithNodes(of_cluster.Take(), facts.nodes, "primaries");
}

std::vector<Finding> Diagnose(const QuorumFacts& facts) {
  Findings of_quorum;
  CheckQuorum(facts, of_quorum);
  return WithNodes(of_quorum.Take(), facts.nodes, "servers");
}

}  // namespace redlatch::cli
