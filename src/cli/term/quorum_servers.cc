#include "src/cli/term/quorum_servers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/cli/term/for_each.h"
#include "src/redis/url/quorum_url.h"

namespace redlatch::cli {

QuorumServers::QuorumServers(const redis::Url& parsed, std::string_view url)
    : name_(parsed.DebugString()) {
  const std::vector<std::string> urls = redis::MembersOf(url);
  for (size_t i = 0; i < urls.size(); ++i) {
    servers_.push_back(
        {.url = urls[i], .name = parsed.members[i].DebugString(), .server = nullptr});
  }
}

std::vector<absl::Status> QuorumServers::Look(
    const std::function<absl::Status(size_t i, Server& server)>& look) {
  std::vector<absl::Status> outcomes(size());
  ForEach(size(), size(), [&](size_t i) {
    One& one = servers_[i];
    if (absl::IsUnknown(one.opened)) {
      auto server = Server::Open(one.url);
      one.opened = server.status();
      if (server.ok()) one.server = *std::move(server);
    }
    outcomes[i] = one.opened.ok() ? look(i, *one.server) : one.opened;
  });
  return outcomes;
}

absl::Status QuorumServers::WhyNoMajority(const std::vector<absl::Status>& outcomes) const {
  const auto well = static_cast<size_t>(
      std::ranges::count_if(outcomes, [](const absl::Status& each) { return each.ok(); }));
  if (well >= majority()) return absl::OkStatus();
  std::string why;
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  for (const absl::Status& each : outcomes) {
    if (each.ok()) continue;
    absl::StrAppend(&why, why.empty() ? "" : "; ", each.message());
    if (!absl::IsUnavailable(each) && !absl::IsNotFound(each)) code = each.code();
  }
  return {code, absl::StrCat(well, " of ", size(), " servers answered, and ", majority(),
                             " are needed: ", why)};
}

}  // namespace redlatch::cli
