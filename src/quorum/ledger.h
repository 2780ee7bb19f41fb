#ifndef REDLATCH_SRC_QUORUM_LEDGER_H_
#define REDLATCH_SRC_QUORUM_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"

namespace redlatch::quorum {

using NodeSet = uint64_t;  // a bit for each node
inline constexpr NodeSet Only(size_t node) { return NodeSet{1} << node; }

// What a client remembers of each hold between the scripts that concern it. Thread-safe.
class Ledger {
 public:
  struct Hold {
    std::string gone_key;   // of its tombstones
    int64_t lease_ms = 0;   // the longest for which some node may have it from here on
    NodeSet uncertain = 0;  // where an `acquire` may yet be executed, over a connection that broke
    uint64_t last_token = 0;  // of one that a majority has granted
    uint32_t attempt = 0;     // and which of its attempts that was
    int splits = 0;           // rounds in a row in which nobody got a majority
  };

  // It is asked for.
  void Begin(std::string_view hold, std::string_view gone_key, int64_t lease_ms, base::Instant now);
  // It is renewed, or extended.
  void Renewing(std::string_view hold, int64_t lease_ms, base::Instant now);
  void Uncertain(std::string_view hold, size_t node);
  // A majority has it until then: when that was asked, and the lease.
  void Granted(std::string_view hold, uint32_t attempt, uint64_t last_token, base::Instant until);
  void Renewed(std::string_view hold, base::Instant until);
  int Split(std::string_view hold);
  int splits(std::string_view hold);
  // It is given up from here on: no node is healed any more.
  std::optional<Hold> End(std::string_view hold);
  // Calls `heal` with what is known, unless the hold has ended; it does not end meanwhile. What is
  // called may call Uncertain(), as answers that come in do.
  void WhileItStands(std::string_view hold, absl::FunctionRef<void(const Hold&)> heal);

  // These have given it back in a round that failed: they are free, and say nothing more of it.
  // True: with those that said so, a majority may be.
  bool GivenBack(std::string_view hold, NodeSet nodes, size_t majority);

  // A node says that it may be this hold's turn. True: now a majority has said so.
  bool Look(std::string_view hold, size_t node, size_t majority);

 private:
  struct Entry {
    Hold hold;
    NodeSet looked = 0;
    bool stands = false;
    base::Instant confirmed;  // a majority has it until then
    base::Instant ends;       // at the latest, if what was requested was executed at once
    base::Instant forget_at;
  };
  static void Prolong(Entry& entry, int64_t lease_ms, base::Instant now);
  Entry* Find(std::string_view hold) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Sweep(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  base::Mutex ending_mu_;  // before the other
  base::Mutex mu_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
  size_t sweep_at_ ABSL_GUARDED_BY(mu_) = 1024;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_LEDGER_H_
