#include "src/cli/doctor/gather_quorum.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/clock.h"
#include "src/cli/doctor/gather.h"
#include "src/cli/term/for_each.h"
#include "src/redis/url/quorum_url.h"

namespace redlatch::cli {

absl::Status GatherQuorum(const redis::Url& url, const std::string& url_text,
                          const std::string& prefix, absl::Duration longest, QuorumFacts* facts) {
  facts->server = url.DebugString();
  facts->restart_delay = url.restart_delay;
  const std::vector<std::string> texts = redis::MembersOf(url_text);
  std::vector<Patient> patients;
  for (size_t i = 0; i < url.members.size(); ++i) {
    const redis::Url& member = url.members[i];
    if (member.kind == redis::Url::Kind::kCluster) {
      return absl::InvalidArgumentError(
          absl::StrCat("redlatch doctor does not look at a cluster that is a server of a quorum; "
                       "look at each by itself: --server ",
                       member.DebugString()));
    }
    NodeFacts node;
    node.address = member.DebugString();
    facts->nodes.push_back(std::move(node));
    patients.push_back({.url = member, .url_text = texts[i], .prefix = prefix, .of_quorum = true});
  }
  const base::Instant deadline = base::Now() + longest;
  ForEach(patients.size(), patients.size(), [&](size_t i) {
    NodeFacts& node = facts->nodes[i];
    node.reached = Gather(patients[i], deadline, &node.facts);
  });
  absl::Status failure = absl::OkStatus();
  for (const NodeFacts& node : facts->nodes) {
    if (node.reached.ok()) return absl::OkStatus();
    if (absl::IsInvalidArgument(node.reached)) return node.reached;
    if (failure.ok() || absl::IsUnavailable(failure)) failure = node.reached;
  }
  return failure;
}

}  // namespace redlatch::cli
