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

// All entries of a client, by main key and owner. An entry lives as long as it is referenced or its
// lock state has work left. Thread-safe.
class LockTable {
 public:
  // `make_room` reserves timers for that many entries. `leaving` removes an entry's timers; it is
  // called under the table's mutex. Statistics are kept separately for the first `stats_names`
  // names. `quarantined`: locks grant nothing during a quarantine.
  LockTable(LockState::Config config, size_t stats_names, bool quarantined,
            std::function<void(size_t entries)> make_room, std::function<void(Entry&)> leaving)
      : config_(config),
        stats_names_(stats_names),
        quarantined_(quarantined),
        make_room_(std::move(make_room)),
        leaving_(std::move(leaving)) {}

  // Returns the entry with a new reference; creates it if needed and counts it in that account.
  // Returns kFailedPrecondition if the name is in use by another lock type.
  absl::StatusOr<Entry*> Attach(KeySet keys, const std::string& owner, const LockType& type,
                                std::string_view account);

  // REQUIRES: the caller refers to the entry already, or holds the mutex of a heap with its timer.
  static void Refer(Entry& entry) { entry.references.fetch_add(1, std::memory_order_relaxed); }
  // Ends a reference. Only the last one needs the mutex.
  void Unrefer(Entry& entry) {
    for (int now = entry.references; now > 1;) {
      if (entry.references.compare_exchange_weak(now, now - 1)) return;
    }
    UnreferLast(entry);
  }

  // Returns the entry with that main key and that grant or pending acquire, with a new reference,
  // or null. `any_name`: if there is none, finds a lock of several names by the grant alone.
  Entry* ReferTo(std::string_view key, GrantId grant, bool any_name);
  // Calls `visit` with each entry of a main key (without allocating memory), or with all. The table
  // is not locked meanwhile.
  void Visit(std::string_view key, absl::FunctionRef<void(Entry&)> visit);
  void VisitAll(absl::FunctionRef<void(Entry&)> visit);

  // The statistics of all names, including those of removed entries; by name.
  std::vector<LockStats> Stats();

 private:
  using Key = std::pair<std::string_view, std::string_view>;  // into the entry

  const LockType* Conflict(std::string_view key, const LockType& type) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UnreferLast(Entry& entry);
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
  // The statistics of removed entries, by name.
  std::map<std::string, LockStats, std::less<>> accounts_ ABSL_GUARDED_BY(mu_);
  std::map<Key, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<const LockType>> types_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOCK_TABLE_H_
