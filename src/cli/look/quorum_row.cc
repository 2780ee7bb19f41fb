#include "src/cli/look/quorum_row.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "src/base/majority.h"
#include "src/lock/description.h"
#include "src/lock/kinds.h"

namespace redlatch::cli {
namespace {

namespace kinds = internal::kinds;

using Leases = std::vector<absl::Duration>;

}  // namespace

bool MayBeOfQuorum(const LockRow& row) {
  if (row.type == "none") return row.kind.empty() || row.is_quorum();
  return row.is_quorum() || (row.kind == kinds::kSimple && internal::ClientOf(row.hold).empty());
}

LockRow RowOfQuorum(const std::vector<LockRow>& rows, int64_t servers, int64_t unknown) {
  LockRow whole{.type = "none",
                .kind = std::string(kinds::kQuorum),
                .quorum = servers,
                .unknown = unknown,
                .whole = true};
  std::map<std::string, Leases> holds;
  for (const LockRow& row : rows) {
    whole.name = row.name;
    if (!MayBeOfQuorum(row)) continue;
    whole.waiting = std::max(whole.waiting, row.waiting);
    whole.token = std::max(whole.token, row.token);
    if (row.holding > 0) holds[row.hold].push_back(row.remaining);
  }
  const auto most =
      std::ranges::max_element(holds, {}, [](const auto& hold) { return hold.second.size(); });
  if (most == holds.end()) return whole;
  whole.type = "string";
  whole.hold = most->first;
  Leases& leases = most->second;
  std::ranges::sort(leases, std::greater());
  const size_t majority = base::Majority(static_cast<size_t>(servers));
  whole.held_on = static_cast<int64_t>(leases.size());
  whole.holding = leases.size() >= majority ? 1 : 0;
  whole.remaining = leases[std::min(leases.size(), majority) - 1];
  for (const LockRow& row : rows) {
    if (row.hold == whole.hold && row.process.pid != 0) whole.process = row.process;
  }
  return whole;
}

}  // namespace redlatch::cli
