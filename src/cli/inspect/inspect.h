// Reads what the keys of a server tell about its locks.
#ifndef REDLATCH_SRC_CLI_INSPECT_INSPECT_H_
#define REDLATCH_SRC_CLI_INSPECT_INSPECT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "redlatch/lock_info.h"
#include "src/cli/term/output.h"
#include "src/cli/term/server.h"
#include "src/lock/kinds.h"
#include "src/redis/wire/codec.h"

namespace redlatch::cli {

// Which keys of a lock were found, as bits.
enum Part : uint8_t {
  kNoPart = 0,  // a key of no lock, or one that alone does not show that there is a lock
  kMain = 1,    // a lock's main key, or a key of no lock
  kQueue = 2,
  kFence = 4,
  kReaders = 8,
  kPermits = 16,
  kWriters = 32,
  kLeader = 64,
  kRedisson = 128,  // the name may be that of a Redisson lock
};

struct LockKey {
  std::string_view name;  // of the lock; it points into the key
  Part part = kNoPart;
  std::string_view suffix = {};  // of an auxiliary key
};
LockKey ReadLockKey(std::string_view key);

// The suffix of the queue, or of the waiters' records, of a kind of lock: "rw.queue" for
// "read_write". It may be a program's own kind.
std::string QueueSuffix(std::string_view kind);
std::string WaitersSuffix(std::string_view kind);
// The kind whose queue has that suffix.
std::string KindOfQueue(std::string_view suffix);

// The `kind` of a lock's hash, such as "reentrant/2", without the version of the protocol. It is
// returned unchanged if it is of another version, or a program's own kind.
std::string_view KindIn(std::string_view text);
// True for the library's kinds, of any version.
bool IsKindOfOurs(std::string_view text);

// The grant id in the value that one server of a quorum stores, "<grant> <attempt>"; empty if the
// value is no grant.
std::string_view QuorumGrantIn(std::string_view value);

// Deletes all keys of a lock of that name and of any kind, except tombstones.
redis::Command DeleteLock(const std::string& name);

// "worker (web1, pid 4242)", "sleep (run, web1, pid 4242)"; if the process is unknown, what `hold`
// tells.
std::string InProse(const LockInfo::Process& process, std::string_view hold);
// A lock in a list.
struct LockRow {
  std::string name;
  std::string type;        // of its key: "string", "hash", ..., "none"
  std::string kind;        // as its hash says; "simple" for a string; empty: unknown
  std::string value = {};  // of an election's leader
  int64_t holding = 0;
  std::string hold;  // the grant id of the first holder, or what a foreign one has stored
  absl::Duration remaining = absl::InfiniteDuration();  // of its lease
  LockInfo::Process process;                            // of the first holder
  LockInfo parties = {};     // the first holders and waiters of a Redisson lock
  bool reading = false;      // the holders are readers
  bool stays_taken = false;  // the first holder's hold has ended, and the name stays taken
  int64_t waiting = 0;
  int64_t waiting_writers = 0;  // how many of the waiters are writers
  absl::Duration longest_wait = absl::ZeroDuration();
  double rate = -1;      // handovers per second, as `redlatch top` measures; -1: unknown
  int64_t token = 0;     // the fence
  int64_t capacity = 0;  // of a semaphore
  int64_t used = 0;
  int64_t total = 0;    // of a latch
  int64_t to_go = 0;    // or how many permits of a Redisson semaphore are free
  int64_t quorum = 0;   // of a quorum's lock: how many servers there are
  int64_t held_on = 0;  // how many of them grant the lock to the first holder
  int64_t unknown = 0;  // how many of them could not be asked
  bool whole = false;   // true if the whole quorum was asked, not only one server

  bool is_quorum() const { return kind == internal::kinds::kQuorum; }
  bool is_election() const { return kind == internal::kinds::kElection; }
  bool is_latch() const { return kind == internal::kinds::kLatch; }
  bool is_semaphore() const { return kind == internal::kinds::kSemaphore; }
  bool is_read_write() const { return kind == internal::kinds::kReadWrite; }
  bool is_redissons() const { return kind.starts_with("redisson_"); }
  bool is_known() const { return internal::kinds::IsOurs(kind); }  // redlatch's own
  bool has_lease() const { return (holding > 0 || held_on > 0) && !is_latch(); }
  // True if the lock is held or has waiters, or the latch is closed.
  bool in_use() const;
};

// "Redisson fair lock", or the name of another kind.
std::string KindInWords(const LockRow& row);
// The state in a few words: "held", "free", "held 4/5", "3 of 4", "read by 2", "5 to go".
std::string StateOf(const LockRow& row);

// True if this row of one server may be a part of the quorum's lock: the key is free, or the server
// has granted the lock, or another program has set the key.
bool MayBeOfQuorum(const LockRow& row);

// Combines what the servers of a quorum know about one lock. Pure. `rows`: those of the servers
// that know the name; `servers`: how many there are; `unknown`: how many could not be asked.
//
// The first holder is the one with grants on most servers; it holds the lock if they are a
// majority. Its lease is the time for which a majority still grants the lock if it is not renewed.
LockRow RowOfQuorum(const std::vector<LockRow>& rows, int64_t servers, int64_t unknown);

// A line of `redlatch ls`: name, kind, state, lease, waiting, holder.
using ListCells = std::array<std::string, 6>;

// The columns of the list, and their widths. On a terminal each line fits, with name, state and
// holder always shown. If the terminal is too narrow, kind, lease and waiting are left out, in this
// order. In a pipe nothing is left out or cut.
class ListColumns {
 public:
  // `width`: of the terminal; 0: a pipe. `longest_name`: the width of the longest name.
  // `columns`: the widths of the others; `less_important`: those that may be left out, in order.
  ListColumns(size_t width, size_t longest_name, std::array<size_t, 5> columns = {0, 10, 10, 6, 7},
              std::initializer_list<size_t> less_important = {1, 3, 4});

  std::string Line(const ListCells& cells) const;

 private:
  const size_t width_;
  std::array<size_t, 5> columns_;  // before the holder; 0: left out
};

// ---- For commands that show the same locks again and again.

// One server or cluster, or all servers of a quorum.
class Servers;
absl::StatusOr<std::shared_ptr<Servers>> OpenServers(const std::string& url);
const std::string& NameOf(const Servers& servers);  // the URLs, without users and passwords

struct LockList {
  std::vector<LockRow> rows;                  // sorted by name
  size_t others = 0;                          // locks of other kinds on the servers of a quorum
  size_t forbidden = 0;                       // locks that this user may not read; not of a quorum
  std::vector<absl::Status> missing = {};     // why some servers could not be asked
  absl::Status undecided = absl::OkStatus();  // an error if too few servers of a quorum answered
};
// Called after each step of a long task.
using ShowProgress = std::function<void(std::string_view what, int64_t count)>;
// The locks whose names match. Locks that this user may not read are left out. An error if no
// server can be asked.
absl::StatusOr<LockList> ListLocks(Servers& servers, const std::string& pattern,
                                   const ShowProgress& progress);
// "2 held, 1 waited for, of 3 at redis://…". `named`: what follows the number of locks.
std::string Totals(const std::vector<LockRow>& rows, const std::string& server,
                   const std::string& named = "");

// Returns the row of one lock. Asks only the first server of a quorum. The row has no kind if the
// key may be another program's data.
absl::StatusOr<LockRow> FindRow(const std::string& url, const std::string& name);

// The token of a lock's last grant, which is about the time of that grant, and the server's time.
struct LastGrant {
  int64_t token = 0;
  int64_t now_us = 0;  // 0: could not be asked
};
// Two short commands for each name; of a quorum, to one of its servers. Empty if it fails.
std::vector<LastGrant> LastGrants(Servers& servers, const std::vector<std::string>& names);

// The pause after a list that took that long to read: at most a tenth of the time is spent reading,
// however many keys there are.
absl::Duration PauseAfter(absl::Duration took, absl::Duration interval);

std::string JsonOf(const LockRow& row);
std::string WaitingOf(const LockRow& row);  // "2", or "2w" if one of them is a waiting writer
std::string HolderOf(const LockRow& row);   // "web1:4242 worker and 1 more"
// `redlatch inspect` and `redlatch break` of one lock. They return an exit code.
// On one screen, `redlatch inspect` leaves out holders and waiters that do not fit.
int ShowLock(Servers& servers, const std::string& name, bool as_json, bool on_one_screen = false);
// `confirm` is called once the holders are shown; nullptr: break the lock without asking.
int BreakLock(Servers& servers, const std::string& name, const std::function<bool()>& confirm,
              bool json = false);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_INSPECT_INSPECT_H_
