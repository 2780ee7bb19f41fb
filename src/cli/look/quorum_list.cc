#include "src/cli/look/quorum_list.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/cli/look/lock_finder.h"
#include "src/cli/look/processes.h"
#include "src/cli/look/quorum_row.h"

namespace redlatch::cli {
namespace {

absl::Status RowsAt(Server& server, std::string_view pattern, std::vector<LockRow>& rows) {
  server.PassOverWhatIsForbidden();
  const absl::StatusOr<std::vector<FoundLock>> found = FindLocks(server, pattern, [](int64_t) {});
  if (!found.ok()) return found.status();
  Processes processes;
  const absl::Span<const FoundLock> all(*found);
  for (size_t at = 0; at < all.size(); at += kLookedAtTogether) {
    absl::StatusOr<std::vector<LockRow>> some =
        LookAt(server, all.subspan(at, kLookedAtTogether), processes);
    if (!some.ok()) return some.status();
    std::ranges::move(*some, std::back_inserter(rows));
  }
  return absl::OkStatus();
}

}  // namespace

QuorumList ListQuorum(QuorumServers& servers, std::string_view pattern) {
  std::vector<std::vector<LockRow>> seen(servers.size());
  QuorumList list;
  list.outcomes =
      servers.Look([&](size_t i, Server& server) { return RowsAt(server, pattern, seen[i]); });
  int64_t unknown = 0;
  std::map<std::string, std::vector<LockRow>> by_name;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (!list.outcomes[i].ok()) {
      ++unknown;
      continue;
    }
    for (LockRow& row : seen[i]) by_name[row.name].push_back(std::move(row));
  }
  for (const auto& [name, rows] : by_name) {
    if (std::ranges::any_of(rows, MayBeOfQuorum)) {
      list.rows.push_back(RowOfQuorum(rows, static_cast<int64_t>(servers.size()), unknown));
    } else {
      ++list.others;
    }
  }
  return list;
}

}  // namespace redlatch::cli
