#include "src/engine/table.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace redlatch::engine {
namespace {

// Most programs have one plan a class; where extra arguments differ from lock to lock, sharing
// them is not worth a search.
constexpr size_t kPlansKept = 8;

}  // namespace

std::shared_ptr<const Plan> Table::Intern(const Plan& plan) {
  for (const auto& known : plans_) {
    if (known->SameAs(plan)) return known;
  }
  auto made = std::make_shared<const Plan>(Complete(plan));
  if (plans_.size() < kPlansKept) plans_.push_back(made);
  return made;
}

// A plan in use for that key by which locks of this one cannot work; null where there is none.
const Plan* Table::Conflict(std::string_view key, const Plan& plan) const {
  for (auto at = entries_.lower_bound(Key(key, std::string_view()));
       at != entries_.end() && at->first.first == key; ++at) {
    const Plan& other = *at->second->plan;
    if (other.sharing == plan.sharing) return other.SameAs(plan) ? nullptr : &other;
    if (other.traits.kind != plan.traits.kind) return &other;
  }
  return nullptr;
}

absl::StatusOr<Entry*> Table::Attach(KeySet keys, const std::string& owner, const Plan& plan) {
  const base::MutexLock lock(mu_);
  if (const Plan* const other = Conflict(keys.main(), plan)) {
    return absl::FailedPreconditionError(
        absl::StrCat("this client already uses the name as a lock of kind \"",
                     std::string(other->traits.kind), "\", which has other scripts than kind \"",
                     std::string(plan.traits.kind), "\"; use another name, or another client"));
  }
  auto found = entries_.find(Key(keys.main(), owner));
  if (found == entries_.end()) {
    LockMachine::Config config = config_;
    config.reentrant = plan.traits.reentrant;
    config.sharing = plan.sharing;
    config.explicit_owner = !owner.empty() && plan.sharing == Sharing::kExclusive;
    config.longest_heartbeat = plan.traits.longest_heartbeat;
    auto made = std::make_unique<Entry>(std::move(keys), owner, Intern(plan), config);
    const Key key(made->keys.main(), made->owner);
    found = entries_.emplace(key, std::move(made)).first;
  }
  Entry& entry = *found->second;
  ++entry.handles;
  Refer(entry);
  return &entry;
}

absl::InlinedVector<uint64_t, 1> Table::Detach(Entry& entry) {
  const base::MutexLock lock(mu_);
  if (--entry.handles > 0) return {};
  // Now, before somebody attaches anew and acquires.
  const base::MutexLock entry_lock(entry.mu);
  return entry.machine.tenures();
}

void Table::Drop(Entry& entry) {
  const base::MutexLock lock(mu_);
  if (--entry.references == 0) Retire(entry);
}

void Table::Retire(Entry& entry) {
  {
    const base::MutexLock lock(entry.mu);
    if (!entry.machine.idle()) return;
  }
  leaving_(entry);
  if (entry.references != 0) return;  // a timer had just been taken: whoever did that drops it
  // `erase(key)` would compare with a key that lies in the entry.
  entries_.erase(entries_.find(Key(entry.keys.main(), entry.owner)));
}

void Table::VisitReferred(const std::vector<Entry*>& entries,
                          absl::FunctionRef<void(Entry&)> visit) {
  for (Entry* entry : entries) {
    visit(*entry);
    Drop(*entry);
  }
}

Entry* Table::ReferTo(std::string_view key, HoldNumber hold) {
  const base::MutexLock lock(mu_);
  for (auto at = entries_.lower_bound(Key(key, std::string_view()));
       at != entries_.end() && at->first.first == key; ++at) {
    if (at->second->hold.load(std::memory_order_relaxed) != hold) continue;
    Refer(*at->second);
    return at->second.get();
  }
  return nullptr;
}

void Table::Visit(std::string_view key, absl::FunctionRef<void(Entry&)> visit) {
  std::vector<Entry*> found;
  {
    const base::MutexLock lock(mu_);
    for (auto at = entries_.lower_bound(Key(key, std::string_view()));
         at != entries_.end() && at->first.first == key; ++at) {
      Refer(*at->second);
      found.push_back(at->second.get());
    }
  }
  VisitReferred(found, visit);
}

void Table::VisitAll(absl::FunctionRef<void(Entry&)> visit) {
  std::vector<Entry*> found;
  {
    const base::MutexLock lock(mu_);
    for (const auto& [key, entry] : entries_) {
      Refer(*entry);
      found.push_back(entry.get());
    }
  }
  VisitReferred(found, visit);
}

}  // namespace redlatch::engine
