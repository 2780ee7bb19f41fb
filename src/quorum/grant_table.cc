#include "src/quorum/grant_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace redlatch::quorum {
namespace {

// Waiters repeat their request more often, and so does a client that renews.
constexpr absl::Duration kForgetAfter = absl::Minutes(1);

bool IsMajority(NodeSet nodes, size_t majority) {
  return static_cast<size_t>(std::popcount(nodes)) >= majority;
}

}  // namespace

template <class Change>
auto GrantTable::With(GrantId id, Change change) {
  const base::MutexLock lock(mu_);
  const auto found = entries_.find(id);
  using Value = decltype(change(found->second));
  return found == entries_.end() ? Value() : change(found->second);
}

// Forgets grants that were never ended, as their leases were over.
void GrantTable::Sweep(base::Instant now) {
  if (entries_.size() < sweep_at_) return;
  std::erase_if(entries_, [&](const auto& each) { return each.second.ends + kForgetAfter < now; });
  sweep_at_ = std::max<size_t>(1024, 2 * entries_.size());
}

void GrantTable::OnAcquire(GrantId id, absl::Duration lease, base::Instant now) {
  const base::MutexLock lock(mu_);
  Sweep(now);
  Entry& entry = entries_[id];
  entry.grant.lease = lease;
  entry.free = 0;
  entry.ends = std::max(entry.ends, now + lease);
}

void GrantTable::OnRenew(GrantId id, absl::Duration lease, base::Instant now) {
  With(id, [&](Entry& entry) { entry.ends = std::max(entry.ends, now + lease); });
}

void GrantTable::SetUncertain(GrantId id, size_t node) {
  With(id, [&](Entry& entry) { entry.grant.uncertain |= Only(node); });
}

void GrantTable::OnGranted(GrantId id, uint32_t attempt, uint64_t last_token, base::Instant until) {
  With(id, [&](Entry& entry) {
    entry.grant.last_token = last_token;
    entry.grant.attempt = attempt;
    entry.stands = true;
  });
  OnRenewed(id, until);
}

void GrantTable::OnRenewed(GrantId id, base::Instant until) {
  With(id, [&](Entry& entry) {
    entry.grant.splits = 0;
    entry.confirmed = std::max(entry.confirmed, until);
  });
}

int GrantTable::AddSplit(GrantId id) {
  return With(id, [](Entry& entry) { return entry.grant.splits++; });
}

int GrantTable::splits(GrantId id) {
  return With(id, [](Entry& entry) { return entry.grant.splits; });
}

std::optional<GrantTable::Grant> GrantTable::End(GrantId id) {
  const base::MutexLock ending(ending_mu_);
  const base::MutexLock lock(mu_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  Grant ended = found->second.grant;
  // A request that is executed late has its whole lease from then on.
  ended.lease = std::max(ended.lease, found->second.ends - base::Now() + absl::Milliseconds(1));
  entries_.erase(found);
  return ended;
}

void GrantTable::WhileItStands(GrantId id, absl::FunctionRef<void(const Grant&)> heal) {
  const base::MutexLock ending(ending_mu_);
  const std::optional<Grant> grant = With(id, [](Entry& entry) -> std::optional<Grant> {
    if (!entry.stands) return std::nullopt;
    Grant known = entry.grant;
    known.lease = std::max(entry.confirmed - base::Now(), absl::Milliseconds(1));
    return known;
  });
  if (grant) heal(*grant);
}

bool GrantTable::AddFree(GrantId id, NodeSet nodes, size_t majority) {
  return With(id, [&](Entry& entry) {
    entry.free |= nodes;
    return IsMajority(entry.free, majority);
  });
}

bool GrantTable::AddTurn(GrantId id, size_t node, size_t majority) {
  return With(id, [&](Entry& entry) {
    const bool was_enough = IsMajority(entry.free, majority);
    entry.free |= Only(node);
    return !was_enough && IsMajority(entry.free, majority);
  });
}

}  // namespace redlatch::quorum
