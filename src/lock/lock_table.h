#ifndef REDLATCH_SRC_LOCK_LOCK_TABLE_H_
#define REDLATCH_SRC_LOCK_LOCK_TABLE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "redlatch/stats.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"

namespace redlatch::internal {

// All entries of a client, by main key and owner. An entry stays for as long as somebody refers to
// it or its machine has something left to do. Thread-safe.
class LockTable {
 public:
  // `make_room` sees to it that so many entries can have timers, and `leaving` takes one out of
  // them, under the table's mutex. Statistics are kept apart for so many names.
  // `quarantined`: locks grant nothing while there is a quarantine.
  LockTable(LockState::Config config, size_t stats_names, bool quarantined,
            std::function<void(size_t entries)> make_room, std::function<void(Entry&)> leaving)
      : config_(config),
        stats_names_(stats_names),
        quarantined_(quarantined),
        make_room_(std::move(make_room)),
        leaving_(std::move(leaving)) {}

  // The entry, made where there is none, referred to; then it is counted in that account.
  // kFailedPrecondition where the name is in use by another class of locks.
  absl::StatusOr<Entry*> Attach(KeySet keys, const std::string& owner, const LockType& type,
                                std::string_view account);

  // By whoever refers to the entry already, or holds the mutex of a heap that its timer is in.
  static void Refer(Entry& entry) { entry.references.fetch_add(1, std::memory_order_relaxed); }
  // Whoever referred to an entry is done with it.
  void Unrefer(Entry& entry);

  // The entry of a main key that bids for this grant, or has it, referred to; null where there is
  // none.
  Entry* ReferTo(std::string_view key, GrantId grant);
  // The same, whatever its main key is: looks at all entries of locks of several names.
  Entry* ReferTo(GrantId grant);
  // Calls `visit` with each entry of a main key (without asking for memory), or with all; the table
  // is not locked meanwhile.
  void Visit(std::string_view key, absl::FunctionRef<void(Entry&)> visit);
  void VisitAll(absl::FunctionRef<void(Entry&)> visit);

  // What the locks of each name have done, those that are gone too; by name.
  std::vector<LockStats> Stats();

 private:
  using Key = std::pair<std::string_view, std::string_view>;  // into the entry

  const LockType* Conflict(std::string_view key, const LockType& type) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<const LockType>> Intern(const LockType& type)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void VisitReferred(const std::vector<Entry*>& entries, absl::FunctionRef<void(Entry&)> visit);

  LockStats* AccountOf(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const LockState::Config config_;
  const size_t stats_names_;
  const bool quarantined_;
  const std::function<void(size_t)> make_room_;
  const std::function<void(Entry&)> leaving_;
  base::Mutex mu_;
  // By name; of the entries that are gone.
  std::map<std::string, LockStats, std::less<>> accounts_ ABSL_GUARDED_BY(mu_);
  std::map<Key, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<const LockType>> plans_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOCK_TABLE_H_
