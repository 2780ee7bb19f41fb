#include "src/quorum/ledger.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/time/time.h"

namespace redlatch::quorum {

Ledger::Entry* Ledger::Find(std::string_view hold) {
  const auto found = entries_.find(hold);
  return found == entries_.end() ? nullptr : &found->second;
}

// Of holds that nobody ended, as their leases were over.
void Ledger::Sweep(base::Instant now) {
  if (entries_.size() < sweep_at_) return;
  std::erase_if(entries_, [&](const auto& each) { return each.second.forget_at < now; });
  sweep_at_ = std::max<size_t>(1024, 2 * entries_.size());
}

void Ledger::Begin(std::string_view hold, std::string_view gone_key, int64_t lease_ms,
                   base::Instant now) {
  const base::MutexLock lock(mu_);
  Entry* entry = Find(hold);
  if (entry == nullptr) {
    Sweep(now);
    entry = &entries_[std::string(hold)];
    entry->hold.gone_key = gone_key;
  }
  entry->hold.lease_ms = lease_ms;
  entry->looked = 0;
  Prolong(*entry, lease_ms, now);
}

// A waiter asks again each ten seconds at least, and so does whoever renews.
void Ledger::Prolong(Entry& entry, int64_t lease_ms, base::Instant now) {
  entry.ends = std::max(entry.ends, now + absl::Milliseconds(lease_ms));
  entry.forget_at = std::max(now, entry.ends) + absl::Minutes(1);
}

void Ledger::Renewing(std::string_view hold, int64_t lease_ms, base::Instant now) {
  const base::MutexLock lock(mu_);
  if (Entry* const entry = Find(hold)) Prolong(*entry, lease_ms, now);
}

void Ledger::Uncertain(std::string_view hold, size_t node) {
  const base::MutexLock lock(mu_);
  if (Entry* const entry = Find(hold)) entry->hold.uncertain |= Only(node);
}

void Ledger::Granted(std::string_view hold, uint32_t attempt, uint64_t last_token,
                     base::Instant until) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(hold);
  if (entry == nullptr) return;
  entry->hold.last_token = last_token;
  entry->hold.attempt = attempt;
  entry->hold.splits = 0;
  entry->stands = true;
  entry->confirmed = std::max(entry->confirmed, until);
}

void Ledger::Renewed(std::string_view hold, base::Instant until) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(hold);
  if (entry == nullptr) return;
  entry->hold.splits = 0;
  entry->confirmed = std::max(entry->confirmed, until);
}

int Ledger::Split(std::string_view hold) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(hold);
  return entry == nullptr ? 0 : entry->hold.splits++;
}

int Ledger::splits(std::string_view hold) {
  const base::MutexLock lock(mu_);
  const Entry* const entry = Find(hold);
  return entry == nullptr ? 0 : entry->hold.splits;
}

std::optional<Ledger::Hold> Ledger::End(std::string_view hold) {
  const base::MutexLock ending(ending_mu_);
  const base::MutexLock lock(mu_);
  const auto found = entries_.find(hold);
  if (found == entries_.end()) return std::nullopt;
  Hold ended = std::move(found->second.hold);
  const absl::Duration left = found->second.ends - base::Now();
  // What is executed late has its whole lease from then on.
  ended.lease_ms = std::max(ended.lease_ms, absl::ToInt64Milliseconds(left) + 1);
  entries_.erase(found);
  return ended;
}

void Ledger::WhileItStands(std::string_view hold, absl::FunctionRef<void(const Hold&)> heal) {
  const base::MutexLock ending(ending_mu_);
  Hold known;
  {
    const base::MutexLock lock(mu_);
    Entry* const entry = Find(hold);
    if (entry == nullptr || !entry->stands) return;
    known = entry->hold;
    const absl::Duration left = entry->confirmed - base::Now();
    known.lease_ms = std::max<int64_t>(absl::ToInt64Milliseconds(left), 1);
  }
  heal(known);
}

bool Ledger::GivenBack(std::string_view hold, NodeSet nodes, size_t majority) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(hold);
  if (entry == nullptr) return false;
  entry->looked |= nodes;
  return static_cast<size_t>(std::popcount(entry->looked)) >= majority;
}

bool Ledger::Look(std::string_view hold, size_t node, size_t majority) {
  const base::MutexLock lock(mu_);
  Entry* const entry = Find(hold);
  if (entry == nullptr) return false;
  const bool was_enough = static_cast<size_t>(std::popcount(entry->looked)) >= majority;
  entry->looked |= Only(node);
  return !was_enough && static_cast<size_t>(std::popcount(entry->looked)) >= majority;
}

}  // namespace redlatch::quorum
