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

GrantTable::Entry* GrantTable::Find(GrantId id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
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
  const base::MutexLock lock(mu_);
  if (Entry* const entry = Find(id)) entry->ends = std::max(entry->ends, now + lease);
}

void GrantTable::SetUncertain(GrantId id, size_t node) {
  const base::MutexLock lock(mu_);
  if (Entry* const entry = Find(id)) entry->grant.uncertain |= Only(node);
}

void GrantTable::OnGranted(GrantId id, uint32_t attempt, uint64_t last_token, base::Instant until) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(id);
  if (entry == nullptr) return;
  entry->grant.last_token = last_token;
  entry->grant.attempt = attempt;
  entry->grant.splits = 0;
  entry->stands = true;
  entry->confirmed = std::max(entry->confirmed, until);
}

void GrantTable::OnRenewed(GrantId id, base::Instant until) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(id);
  if (entry == nullptr) return;
  entry->grant.splits = 0;
  entry->confirmed = std::max(entry->confirmed, until);
}

int GrantTable::AddSplit(GrantId id) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(id);
  return entry == nullptr ? 0 : entry->grant.splits++;
}

int GrantTable::splits(GrantId id) {
  const base::MutexLock lock(mu_);
  const Entry* const entry = Find(id);
  return entry == nullptr ? 0 : entry->grant.splits;
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
  Grant grant;
  {
    const base::MutexLock lock(mu_);
    Entry* const entry = Find(id);
    if (entry == nullptr || !entry->stands) return;
    grant = entry->grant;
    grant.lease = std::max(entry->confirmed - base::Now(), absl::Milliseconds(1));
  }
  heal(grant);
}

bool GrantTable::AddFree(GrantId id, NodeSet nodes, size_t majority) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(id);
  if (entry == nullptr) return false;
  entry->free |= nodes;
  return IsMajority(entry->free, majority);
}

bool GrantTable::AddTurn(GrantId id, size_t node, size_t majority) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(id);
  if (entry == nullptr) return false;
  const bool was_enough = IsMajority(entry->free, majority);
  entry->free |= Only(node);
  return !was_enough && IsMajority(entry->free, majority);
}

}  // namespace redlatch::quorum
