#include "src/lock/lock_table.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace redlatch::internal {
namespace {

// Most programs have one type per class. If extra arguments or names differ from lock to lock,
// sharing their types is not worth a search.
constexpr size_t kMostTypes = 8;

}  // namespace

absl::StatusOr<std::shared_ptr<const LockType>> LockTable::Intern(const LockType& type) {
  for (const auto& known : types_) {
    if (known->SameAs(type)) return known;
  }
  absl::StatusOr<LockType> complete = Complete(type);
  if (!complete.ok()) return complete.status();
  const bool guard = quarantined_ && complete->holds();
  auto made = std::make_shared<const LockType>(guard ? Quarantined(*std::move(complete))
                                                     : *std::move(complete));
  if (made->others.empty() && types_.size() < kMostTypes) types_.push_back(made);
  return made;
}

// Returns a type in use for that key that excludes `type`, or null.
const LockType* LockTable::Conflict(std::string_view key, const LockType& type) const {
  for (auto at = entries_.lower_bound(Key(key, std::string_view()));
       at != entries_.end() && at->first.first == key; ++at) {
    const LockType& other = *at->second->type;
    if (other.ApartFrom(type)) continue;
    if (other.use == type.use) return other.SameAs(type) ? nullptr : &other;
    if (other.traits.kind != type.traits.kind) return &other;
  }
  return nullptr;
}

absl::StatusOr<Entry*> LockTable::Attach(KeySet keys, const std::string& owner,
                                         const LockType& type, std::string_view account) {
  const base::MutexLock lock(mu_);
  if (const LockType* const other = Conflict(keys.main(), type)) {
    const std::string kind(type.traits.kind);
    if (other->traits.kind == kind && other->extra_args != type.extra_args) {
      return absl::FailedPreconditionError(
          absl::StrCat("this client already uses the name as a lock of kind \"", kind,
                       "\" with other ExtraArgs(); make them equal, or pass what differs "
                       "from one acquisition to the next to AcquireBy()"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("this client already uses the name as a lock of kind \"",
                     std::string(other->traits.kind), "\", which has other scripts than kind \"",
                     kind, "\"; use another name, or another client"));
  }
  auto found = entries_.find(Key(keys.main(), owner));
  if (found == entries_.end()) {
    LockState::Config config = config_;
    config.reentrant = type.traits.reentrant;
    config.use = type.use;
    config.several = !type.others.empty();
    config.explicit_owner = !owner.empty() && type.use == GrantUse::kExclusive && !config.several;
    config.longest_heartbeat = PackedDuration(type.traits.longest_heartbeat);
    config.listens = type.redisson();
    config.counts = stats_names_ > 0;
    absl::StatusOr<std::shared_ptr<const LockType>> interned = Intern(type);
    if (!interned.ok()) return interned.status();
    auto made = std::make_unique<Entry>(NamedLock{std::move(keys), *std::move(interned), owner},
                                        config, config.counts ? AccountOf(account) : nullptr);
    make_room_(entries_.size() + 1);
    const Key key(made->keys.main(), made->owner);
    found = entries_.emplace(key, std::move(made)).first;
  }
  Entry& entry = *found->second;
  Refer(entry);
  return &entry;
}

void LockTable::UnreferLast(Entry& entry) {
  const base::MutexLock lock(mu_);
  if (--entry.references == 0) Forget(entry);
}

void LockTable::Forget(Entry& entry) {
  {
    const base::MutexLock lock(entry.mu);
    if (!entry.state.idle()) return;
  }
  leaving_(entry);
  if (entry.references != 0) return;  // a timer had just been taken; its thread will call Unrefer()
  if (entry.account != nullptr) {
    const base::MutexLock lock(entry.mu);
    entry.state.AddCountsTo(*entry.account);
  }
  // `erase(key)` would compare with a key inside the entry.
  entries_.erase(entries_.find(Key(entry.keys.main(), entry.owner)));
}

void LockTable::VisitReferred(const std::vector<Entry*>& entries,
                              absl::FunctionRef<void(Entry&)> visit) {
  for (Entry* entry : entries) {
    visit(*entry);
    Unrefer(*entry);
  }
}

Entry* LockTable::ReferTo(std::string_view key, GrantId grant, bool any_name) {
  const base::MutexLock lock(mu_);
  const auto is = [&](const Entry& entry) {
    return entry.grant.load(std::memory_order_relaxed) == grant;
  };
  Entry* found = nullptr;
  for (auto at = entries_.lower_bound(Key(key, std::string_view()));
       at != entries_.end() && at->first.first == key && found == nullptr; ++at) {
    if (is(*at->second)) found = at->second.get();
  }
  for (auto at = entries_.begin(); any_name && at != entries_.end() && found == nullptr; ++at) {
    if (!at->second->type->others.empty() && is(*at->second)) found = at->second.get();
  }
  if (found != nullptr) Refer(*found);
  return found;
}

void LockTable::Visit(std::string_view key, absl::FunctionRef<void(Entry&)> visit) {
  for (Entry* last = nullptr;;) {
    Entry* next = nullptr;
    {
      const base::MutexLock lock(mu_);
      const auto at = last == nullptr ? entries_.lower_bound(Key(key, std::string_view()))
                                      : entries_.upper_bound(Key(key, last->owner));
      if (at != entries_.end() && at->first.first == key) Refer(*(next = at->second.get()));
    }
    if (last != nullptr) Unrefer(*last);
    if (next == nullptr) return;
    visit(*next);
    last = next;
  }
}

void LockTable::VisitAll(absl::FunctionRef<void(Entry&)> visit) {
  std::vector<Entry*> found;
  base::WithMemory([&] {
    const base::MutexLock lock(mu_);
    found.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) {
      Refer(*found.emplace_back(entry.get()));
    }
  });
  VisitReferred(found, visit);
}

// Once every slot is taken, further names are counted as kOtherNames, for good: counters must never
// decrease.
LockStats* LockTable::AccountOf(std::string_view name) {
  if (name.empty()) name = kOtherNames;
  auto found = accounts_.find(name);
  if (found == accounts_.end()) {
    const size_t others = accounts_.contains(kOtherNames) ? 1 : 0;
    if (accounts_.size() - others >= stats_names_) name = kOtherNames;
    LockStats made;
    made.name = std::string(name);
    found = accounts_.try_emplace(made.name, std::move(made)).first;
  }
  return &found->second;
}

std::vector<LockStats> LockTable::Stats() {
  std::vector<LockStats> stats;
  std::map<const LockStats*, size_t> places;
  std::vector<Entry*> found;
  {
    // The references keep the entries: an entry that is removed moves its counts to its account.
    const base::MutexLock lock(mu_);
    stats.reserve(accounts_.size());
    for (const auto& [name, account] : accounts_) {
      places.emplace(&account, stats.size());
      stats.push_back(account);
    }
    if (!stats.empty()) found.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) {
      if (entry->account == nullptr) continue;
      Refer(*entry);
      found.push_back(entry.get());
    }
  }
  VisitReferred(found, [&](Entry& entry) {
    LockStats& of_name = stats[places.at(entry.account)];
    const base::MutexLock lock(entry.mu);
    entry.state.AddCountsTo(of_name);
    entry.state.AddStateTo(of_name);
  });
  return stats;
}

}  // namespace redlatch::internal
