// Reads what the keys of a server tell about its locks.
#ifndef REDLATCH_SRC_CLI_INSPECT_LOCKS_H_
#define REDLATCH_SRC_CLI_INSPECT_LOCKS_H_

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
std::string_view QuorumHoldIn(std::string_view value);

// Deletes all keys of locks of these names and of any kind, except tombstones.
redis::Command DeleteLocks(const std::vector<std::string>& names);

struct FoundLock {
  std::string name;
  uint8_t parts = 0;                     // which of its keys there are: bits of Part
  std::vector<std::string> queues = {};  // the suffixes of its queues: one queue per kind
};

// All locks whose name matches, sorted by name. Goes through all keys of the server by SCAN, a few
// at a time. After each step it calls `progress` with the number of keys so far.
absl::StatusOr<std::vector<FoundLock>> FindLocks(Server& server, std::string_view pattern,
                                                 const std::function<void(int64_t keys)>& progress);

// "web1:4242 worker"; if the process is unknown, what `hold` tells.
std::string Described(const LockInfo::Process& process, std::string_view hold);
// The same within a sentence: "worker (web1, pid 4242)".
std::string InProse(const LockInfo::Process& process, std::string_view hold);
// Adds host, pid and program, if they are known.
void AddProcess(const LockInfo::Process& process, JsonObject& json);

// A lock in a list.
struct LockRow {
  std::string name;
  std::string type;  // of its key: "string", "hash", ..., "none"
  std::string kind;  // as its hash says; "simple" for a string; empty: unknown
  int64_t holding = 0;
  std::string hold;  // the grant id of the first holder, or what a foreign one has stored
  absl::Duration remaining = absl::InfiniteDuration();  // of its lease
  LockInfo::Process process;                            // of the first holder
  bool reading = false;                                 // the holders are readers
  int64_t waiting = 0;
  int64_t waiting_writers = 0;  // how many of the waiters are writers
  int64_t token = 0;            // the fence
  int64_t capacity = 0;         // of a semaphore
  int64_t used = 0;
  int64_t total = 0;  // of a latch
  int64_t to_go = 0;
  int64_t quorum = 0;   // of a quorum's lock: how many servers there are
  int64_t held_on = 0;  // how many of them grant the lock to the first holder
  int64_t unknown = 0;  // how many of them could not be asked
  bool whole = false;   // true if the whole quorum was asked, not only one server

  bool is_quorum() const { return kind == internal::kinds::kQuorum; }
  bool is_latch() const { return kind == internal::kinds::kLatch; }
  bool is_semaphore() const { return kind == internal::kinds::kSemaphore; }
  bool is_read_write() const { return kind == internal::kinds::kReadWrite; }
  bool is_known() const { return internal::kinds::IsOurs(kind); }  // redlatch's own
  // True if the lock is held or has waiters, or the latch is closed.
  bool in_use() const;
};

// Reads the rows of all locks by a few short commands each, in batches of several locks. Calls
// `take` with the rows of each batch.
absl::Status ReadAllRows(Server& server, absl::Span<const FoundLock> locks,
                         const std::function<void(std::vector<LockRow> rows)>& take);

// True if the servers of a quorum that grant the lock, together with those that could not be asked,
// may be a majority.
bool MayBeHeld(const LockRow& row);

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

// What one server of a quorum says about a lock.
struct SaidByServer {
  std::string server;    // its URL, without user and password
  absl::Status failure;  // why it could not be asked
  std::string hold;      // the id of its grant; empty: none
  std::string text;      // its answer in words
  absl::Duration remaining = absl::ZeroDuration();
};

// Everything that is known about one lock.
struct Inspection {
  bool exists = false;  // at least one of its keys exists
  // True if only the main key exists and it may be another program's data: its type is one that no
  // lock of redlatch has alone, or it is a string without expiry that is no grant id.
  bool may_be_data = false;
  LockRow row;
  LockInfo info;                           // without holders if it is a program's own kind
  int64_t now_us = 0;                      // by the server's clock
  std::vector<SaidByServer> servers = {};  // if a whole quorum was asked

  absl::Time now() const { return absl::FromUnixMicros(now_us); }
};

// Inspects the lock whose key is `name`.
absl::StatusOr<Inspection> InspectLock(Server& server, const std::string& name);

// Ends every grant of the lock. kUnimplemented for latches and for a program's own kinds.
absl::Status Break(const Server& server, const LockRow& row);

// Sets the semaphore's capacity for all its users.
absl::Status SetCapacity(const Server& server, const std::string& name, int64_t capacity);

// Says what a key with `may_be_data` is, and what to do if it is a lock after all.
std::string SayMayBeData(const LockRow& row);

// `the lock "name"`, `the semaphore "name"` or `the latch "name"`.
std::string Called(const LockRow& row);

// A holder's or waiter's line: its process, since when, and the rest of its lease.
std::string LineOf(const LockInfo::Party& party, const Inspection& inspection);

// The cells of one line of `redlatch ls`.
struct ListCells {
  std::string name, kind, state, lease, waiting, holder;
};

// The columns of the list, and their widths. On a terminal each line fits, with name, state and
// holder always shown. If the terminal is too narrow, kind, lease and waiting are left out, in this
// order. In a pipe nothing is left out or cut.
class ListColumns {
 public:
  // `width`: of the terminal; 0: a pipe. `longest_name`: the width of the longest name.
  ListColumns(size_t width, size_t longest_name);

  std::string Line(const ListCells& cells) const;

 private:
  const size_t width_;
  size_t name_ = 0;
  size_t left_out_ = 0;
};

struct QuorumList {
  std::vector<LockRow> rows;           // each lock once, sorted by name
  size_t others = 0;                   // how many locks of other kinds the servers have
  std::vector<absl::Status> outcomes;  // one for each server
};

// All locks of the quorum whose names match. Goes through all keys of all servers.
QuorumList ListQuorum(QuorumServers& servers, std::string_view pattern);

// Inspects single locks of a server or a cluster, or of all servers of a quorum at the same time.
class Inspector {
 public:
  // Fails as Server::Open() does. For a quorum it fails only if the URL is wrong: the servers are
  // contacted by the first question.
  static absl::StatusOr<std::unique_ptr<Inspector>> Open(std::string_view url);

  // The URL, without users and passwords.
  const std::string& name() const { return server_ != nullptr ? server_->name() : quorum_->name(); }
  // An error if no server answers. If less than a majority of a quorum answers, the result is what
  // these servers say, and undecided() is an error.
  absl::StatusOr<Inspection> InspectLock(const std::string& name);
  absl::Status undecided() const { return undecided_; }
  // Ends the grants of the inspected lock; of a quorum, at each server that has one. See
  // cli::Break().
  absl::Status Break(const Inspection& seen);

 private:
  std::unique_ptr<Server> server_;         // null if the URL names a quorum
  std::unique_ptr<QuorumServers> quorum_;  // null otherwise
  absl::Status undecided_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_INSPECT_LOCKS_H_
