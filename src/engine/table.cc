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

absl::StatusOr<Entry*> Table::Attach(KeySet keys, const std::string& owner, const Plan& plan) {
  const base::MutexLock lock(mu_);
  const auto first = entries_.lower_bound(Key(keys.main(), std::string_view()));
  if (first != entries_.end() && first->first.first == keys.main() &&
      !first->second->plan->SameAs(plan)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this client already uses the name as a lock of kind \"",
        std::string(first->second->plan->traits.kind), "\", which has other scripts than kind \"",
        std::string(plan.traits.kind), "\"; use another name, or another client"));
  }
  auto found = entries_.find(Key(keys.main(), owner));
  if (found == entries_.end()) {
    LockMachine::Config config = config_;
    config.reentrant = plan.traits.reentrant;
    config.explicit_owner = !owner.empty();
    auto made = std::make_unique<Entry>(std::move(keys), owner, Intern(plan), config);
    const Key key(made->keys.main(), made->owner);
    found = entries_.emplace(key, std::move(made)).first;
  }
  Entry& entry = *found->second;
  ++entry.handles;
  Refer(entry);
  return &entry;
}

uint64_t Table::Detach(Entry& entry) {
  const base::MutexLock lock(mu_);
  if (--entry.handles > 0) return 0;
  // Now, before somebody attaches anew and acquires.
  const base::MutexLock entry_lock(entry.mu);
  return entry.machine.tenure();
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
