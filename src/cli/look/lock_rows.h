#ifndef REDLATCH_SRC_CLI_LOOK_LOCK_ROWS_H_
#define REDLATCH_SRC_CLI_LOOK_LOCK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "redlatch/lock_info.h"
#include "src/cli/look/lock_finder.h"
#include "src/cli/look/processes.h"
#include "src/cli/term/server.h"
#include "src/lock/kinds.h"

namespace redlatch::cli {

// A lock in a list.
struct LockRow {
  std::string name;
  std::string type;  // of its key: "string", "hash", ..., "none"
  std::string kind;  // what a hash says that it is; "simple" for a string; empty: not known
  int64_t holding = 0;
  std::string hold;  // of the first holder; what a foreign one has stored
  absl::Duration remaining = absl::InfiniteDuration();  // of its lease
  LockInfo::Process process;                            // its
  bool reading = false;                                 // they are readers
  int64_t waiting = 0;
  int64_t waiting_writers = 0;  // of these
  int64_t token = 0;            // the fence
  int64_t capacity = 0;         // of a semaphore
  int64_t used = 0;
  int64_t total = 0;  // of a latch
  int64_t to_go = 0;
  int64_t quorum = 0;   // of how many servers; of a lock that a majority of them grants
  int64_t held_on = 0;  // how many of these have granted the first hold; of all, if asked
  int64_t unknown = 0;  // how many of them could not be asked
  bool whole = false;   // all of them were asked, not one

  bool is_quorum() const { return kind == internal::kinds::kQuorum; }
  bool is_latch() const { return kind == internal::kinds::kLatch; }
  bool is_semaphore() const { return kind == internal::kinds::kSemaphore; }
  bool is_read_write() const { return kind == internal::kinds::kReadWrite; }
  bool is_known() const { return internal::kinds::IsOurs(kind); }  // redlatch's own
  // Held or waited for; of a latch, that it is closed.
  bool in_use() const;
};

// Locks that are looked at together, so that no server is kept for long.
inline constexpr size_t kLookedAtTogether = 100;

// By a few short commands for each, all of which travel together.
absl::StatusOr<std::vector<LockRow>> LookAt(Server& server, absl::Span<const FoundLock> locks,
                                            Processes& processes);

// Of a quorum's lock, whether those that could not be asked may make it a majority.
bool MayBeHeld(const LockRow& row);

// "held", "free", "held 4/5", "3 of 4", "read by 2", "5 to go": what there is to say of its state
// in a word.
std::string StateOf(const LockRow& row);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_LOCK_ROWS_H_
