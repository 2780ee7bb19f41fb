#include "src/cli/look/quorum_looker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/cli/look/processes.h"
#include "src/cli/look/quorum_row.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

// Waiters, by each server: if it lists fewer, it lists all.
constexpr size_t kMostQuorumListed = 100;

SaidByServer SaidBy(const std::string& server, const absl::StatusOr<Sight>& seen,
                    const std::string& main_hold) {
  SaidByServer said{.server = server, .failure = seen.status(), .hold = {}, .text = {}};
  if (!seen.ok()) {
    said.text = absl::StrCat("not asked: ", seen.status().message());
    return said;
  }
  const LockRow& row = seen->row;
  if (!seen->exists || (MayBeOfQuorum(row) && seen->info.holders.empty())) {
    said.text = "free";
  } else if (seen->may_be_data || !MayBeOfQuorum(row)) {
    said.text = absl::StrCat("another kind of lock, or no lock: ",
                             row.kind.empty() ? absl::StrCat("a ", row.type) : Printable(row.kind));
  } else {
    const LockInfo::Party& holder = seen->info.holders.front();
    said.hold = holder.hold;
    said.remaining = holder.remaining;
    said.text = absl::StrCat(
        "held", said.hold == main_hold ? "" : " by " + Described(holder.process, holder.hold),
        holder.remaining == absl::InfiniteDuration() ? ", without end"
                                                     : ", lease " + Brief(holder.remaining));
  }
  return said;
}

void AddWaiters(const LockInfo& from, LockInfo& to) {
  to.waiting = std::max(to.waiting, from.waiting);
  for (const LockInfo::Party& waiter : from.waiters) {
    const auto known = std::ranges::find(to.waiters, waiter.hold, &LockInfo::Party::hold);
    if (known == to.waiters.end()) {
      to.waiters.push_back(waiter);
    } else if (known->process.pid == 0) {
      known->process = waiter.process;
    }
  }
}

}  // namespace

Sight SightOfQuorum(const std::string& name, const std::vector<std::string>& servers,
                    const std::vector<absl::StatusOr<Sight>>& seen) {
  std::vector<LockRow> rows;
  int64_t unknown = 0;
  Sight sight;
  for (const absl::StatusOr<Sight>& each : seen) {
    if (!each.ok()) {
      ++unknown;
    } else if (each->exists && !each->may_be_data) {
      rows.push_back(each->row);
      sight.exists = true;
      if (sight.now_us == 0) sight.now_us = each->now_us;
    } else if (each->may_be_data) {
      sight.exists = true;
    }
  }
  sight.row = RowOfQuorum(rows, static_cast<int64_t>(servers.size()), unknown);
  sight.row.name = name;
  const LockRow& row = sight.row;
  for (size_t i = 0; i < servers.size(); ++i) {
    sight.servers.push_back(SaidBy(servers[i], seen[i], row.hold));
    if (!seen[i].ok() || !MayBeOfQuorum(seen[i]->row)) continue;
    const LockInfo& info = seen[i]->info;
    sight.info.last_token = std::max(sight.info.last_token, info.last_token);
    AddWaiters(info, sight.info);
    if (row.held_on == 0 || !MayBeHeld(row) || !sight.info.holders.empty()) continue;
    for (const LockInfo::Party& holder : info.holders) {
      if (holder.hold == row.hold) sight.info.holders.push_back(holder);
    }
  }
  for (LockInfo::Party& holder : sight.info.holders) {
    holder.remaining = row.remaining;
    holder.process = row.process;
  }
  sight.info.holding = row.holding;
  auto& waiters = sight.info.waiters;
  // Where a server has not heard that it has a majority.
  std::erase_if(waiters, [&](const LockInfo::Party& each) {
    return row.holding > 0 && each.hold == row.hold;
  });
  std::ranges::sort(waiters, {}, &LockInfo::Party::since);
  if (waiters.size() < kMostQuorumListed) {
    sight.info.waiting = static_cast<int64_t>(waiters.size());
  }
  return sight;
}

absl::StatusOr<Sight> QuorumLooker::LookClosely(const std::string& name) {
  std::vector<absl::StatusOr<Sight>> seen(servers_.size(), absl::UnknownError("not asked"));
  const std::vector<absl::Status> outcomes = servers_.Look([&](size_t i, Server& server) {
    seen[i] = cli::LookClosely(server, name);
    return seen[i].status();
  });
  std::vector<std::string> names;
  for (size_t i = 0; i < servers_.size(); ++i) {
    names.push_back(servers_.name(i));
    if (absl::IsInvalidArgument(outcomes[i])) return outcomes[i];  // no lock has that name
    if (!outcomes[i].ok()) seen[i] = outcomes[i];
  }
  undecided_ = servers_.WhyNoMajority(outcomes);
  if (std::ranges::none_of(outcomes, &absl::Status::ok)) return undecided_;
  return SightOfQuorum(name, names, seen);
}

absl::Status QuorumLooker::Break(const Sight& seen) {
  LockRow row = seen.row;
  row.kind = internal::kinds::kQuorum;
  const std::vector<absl::Status> outcomes = servers_.Look([&](size_t i, Server& server) {
    const SaidByServer& said = seen.servers[i];
    return said.hold.empty() ? said.failure : cli::Break(server, row);
  });
  return servers_.WhyNoMajority(outcomes);
}

}  // namespace redlatch::cli
