#ifndef REDLATCH_SRC_QUORUM_GRANT_TABLE_H_
#define REDLATCH_SRC_QUORUM_GRANT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/state/request.h"
#include "src/quorum/node.h"

namespace redlatch::quorum {

using internal::GrantId;

// What a client remembers of each grant between the requests that concern it. Thread-safe.
class GrantTable {
 public:
  struct Grant {
    // The longest for which some node may have it from now on.
    absl::Duration lease = absl::ZeroDuration();
    NodeSet uncertain = 0;    // where an acquire may still be executed, as its connection broke
    uint64_t last_token = 0;  // of a grant that a majority has given
    uint32_t attempt = 0;     // and which attempt that was
    int splits = 0;           // rounds in a row in which no client got a majority
  };

  void OnAcquire(GrantId id, absl::Duration lease, base::Instant now);
  void OnRenew(GrantId id, absl::Duration lease, base::Instant now);
  void SetUncertain(GrantId id, size_t node);
  // A majority has it until then.
  void OnGranted(GrantId id, uint32_t attempt, uint64_t last_token, base::Instant until);
  void OnRenewed(GrantId id, base::Instant until);
  // Counts a split. Returns how many there were before.
  int AddSplit(GrantId id);
  int splits(GrantId id);
  // The grant is given up: no node is healed from now on.
  std::optional<Grant> End(GrantId id);
  // Calls `heal` if the grant stands. The grant does not end meanwhile. `heal` may call
  // SetUncertain(), as the replies that come in do.
  void WhileItStands(GrantId id, absl::FunctionRef<void(const Grant&)> heal);

  // These nodes gave it back in a round that failed, so they are free and say so no more. Returns
  // whether a majority has said that it may be this grant's turn.
  bool AddFree(GrantId id, NodeSet nodes, size_t majority);
  // A node says that it may be this grant's turn. Returns whether a majority now says so, and did
  // not before.
  bool AddTurn(GrantId id, size_t node, size_t majority);

 private:
  struct Entry {
    Grant grant;
    NodeSet free = 0;  // the nodes at which it may be this grant's turn
    bool stands = false;
    base::Instant confirmed;  // a majority has it until then
    base::Instant ends;       // at the latest, if all requests were executed at once
  };
  // Calls `change` with the entry if there is one. Returns what it returns, or a value of that
  // type.
  template <class Change>
  auto With(GrantId id, Change change);
  void Sweep(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  base::Mutex ending_mu_;  // before the other
  base::Mutex mu_;
  std::unordered_map<GrantId, Entry> entries_ ABSL_GUARDED_BY(mu_);
  size_t sweep_at_ ABSL_GUARDED_BY(mu_) = 1024;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_GRANT_TABLE_H_
