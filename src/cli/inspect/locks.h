// What the keys of a server tell of its locks.
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

// Bits, of which a lock that was found has some.
enum Part : uint8_t {
  kNoPart = 0,  // a key that tells of no lock, or never alone
  kMain = 1,    // the lock's own key, or no lock's at all
  kQueue = 2,
  kFence = 4,
  kReaders = 8,
  kPermits = 16,
  kWriters = 32,
};

struct LockKey {
  std::string_view name;  // of the lock; within the key
  Part part = kNoPart;
  std::string_view suffix = {};  // of another key than kMain
};
LockKey ReadLockKey(std::string_view key);

// The suffix of the queue, or the records, of a kind of lock: "rw.queue" of "read_write". Of a
// program's own kind, if its name can be part of a key.
std::string QueueSuffix(std::string_view kind);
std::string WaitersSuffix(std::string_view kind);
// The kind whose queue has that suffix.
std::string KindOfQueue(std::string_view suffix);

// What the `kind` of a lock's hash says, "reentrant/2", without the version of the protocol; as it
// stands where it is of another version, or a kind of a program's own.
std::string_view KindIn(std::string_view text);
// Whether it is one of the library's, of whatever version.
bool IsKindOfOurs(std::string_view text);

// The hold in what one server of a quorum stores for it, "<hold> <attempt>"; empty if it is none.
std::string_view QuorumHoldIn(std::string_view value);

// Deletes whatever locks of these names, of any kind, have left but tombstones.
redis::Command DeleteLocks(const std::vector<std::string>& names);

struct FoundLock {
  std::string name;
  uint8_t parts = 0;  // which of its keys there were; of Part
  std::vector<std::string> queues =
      {};  // suffixes of its queues, of which it has one for each kind
};

// All locks whose name matches, by name. Goes through all keys of the server by SCAN, a few at a
// time. `progress` hears now and then how many keys it has seen.
absl::StatusOr<std::vector<FoundLock>> FindLocks(Server& server, std::string_view pattern,
                                                 const std::function<void(int64_t keys)>& progress);

// "web1:4242 worker"; where it is not known, what the hold tells.
std::string Described(const LockInfo::Process& process, std::string_view hold);
// The same within a sentence: "worker (web1, pid 4242)".
std::string InProse(const LockInfo::Process& process, std::string_view hold);
// host, pid and program; none where it is not known.
void AddProcess(const LockInfo::Process& process, JsonObject& json);

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

// By a few short commands for each; those of some locks travel together, and `take` is given their
// rows.
absl::Status LookAtAll(Server& server, absl::Span<const FoundLock> locks,
                       const std::function<void(std::vector<LockRow> rows)>& take);

// Of a quorum's lock, whether those that could not be asked may make it a majority.
bool MayBeHeld(const LockRow& row);

// "held", "free", "held 4/5", "3 of 4", "read by 2", "5 to go": what there is to say of its state
// in a word.
std::string StateOf(const LockRow& row);

// Whether what one server of a quorum has may be the quorum's lock: its key is free, or it has
// granted the lock, or another program has set the key.
bool MayBeOfQuorum(const LockRow& row);

// What the servers of a quorum know of one lock, in one row. Pure. `rows`: of those that know the
// name; `servers`: all of them; `unknown`: so many could not be asked.
//
// The first hold is that which most servers have granted, and it holds the lock if a majority has.
// Its lease is what a majority has left if it is not renewed.
LockRow RowOfQuorum(const std::vector<LockRow>& rows, int64_t servers, int64_t unknown);

// What one server of a quorum says of a lock.
struct SaidByServer {
  std::string server;    // its URL, without user and password
  absl::Status failure;  // why it says nothing
  std::string hold;      // that it has granted; empty: none
  std::string text;      // what it has to say, for people
  absl::Duration remaining = absl::ZeroDuration();
};

// All that can be seen of one lock.
struct Sight {
  bool exists = false;  // any of its keys
  // Nothing but the key itself is there, and it does not say that it is a lock: of a type that no
  // lock of redlatch alone has, or a string without end that is no hold. It may be anybody's data.
  bool may_be_data = false;
  LockRow row;
  LockInfo info;       // holders are not known of kinds that are a program's own
  int64_t now_us = 0;  // by the server's clock
  std::vector<SaidByServer> servers = {};  // of a quorum that was looked at as a whole

  absl::Time now() const { return absl::FromUnixMicros(now_us); }
};

// Of the lock whose key is `name`.
absl::StatusOr<Sight> LookClosely(Server& server, const std::string& name);

// Takes it from whoever has it. kUnimplemented for latches and kinds of a program's own.
absl::Status Break(const Server& server, const LockRow& row);

// Of the semaphore, for everyone who uses it.
absl::Status SetCapacity(const Server& server, const std::string& name, int64_t capacity);

// What such a key is, and what to do where it is a lock all the same.
std::string SayMayBeData(const LockRow& row);

// "the latch", "the semaphore", "the lock", and its name.
std::string Called(const LockRow& row);

// A holder's or waiter's line: who, since when, how long yet.
std::string LineOf(const LockInfo::Party& party, const Sight& sight);

// What one line of `redlatch ls` says.
struct ListCells {
  std::string name, kind, state, lease, waiting, holder;
};

// Which columns the list has, and how wide they are. On a terminal a line fits, and name, state and
// holder are always there: where it is too narrow for all, kind, lease and waiting are left out, in
// this order. In a pipe nothing is left out or cut.
class ListColumns {
 public:
  // `width`: the terminal's columns; 0: a pipe. `longest_name`: in columns.
  ListColumns(size_t width, size_t longest_name);

  std::string Line(const ListCells& cells) const;

 private:
  const size_t width_;
  size_t name_ = 0;
  size_t left_out_ = 0;
};

struct QuorumList {
  std::vector<LockRow> rows;           // each lock once, by name
  size_t others = 0;                   // locks of other kinds that the servers have
  std::vector<absl::Status> outcomes;  // of each server
};

// All locks of the quorum whose names match. Looks at all keys of all its servers.
QuorumList ListQuorum(QuorumServers& servers, std::string_view pattern);

// Looks at locks one by one, wherever they are: at a server, in a cluster, or at all servers of a
// quorum at the same time.
class Looker {
 public:
  // Errors as those of Server::Open(). Of a quorum, whose servers are reached when it is first
  // asked, only those of the URL.
  static absl::StatusOr<std::unique_ptr<Looker>> Open(std::string_view url);

  // The URL, without users and passwords.
  const std::string& name() const { return server_ != nullptr ? server_->name() : quorum_->name(); }
  // Not OK if no server tells. If so few servers of a quorum tell that they decide nothing, it is
  // what these say, and undecided() says why.
  absl::StatusOr<Sight> LookClosely(const std::string& name);
  absl::Status undecided() const { return undecided_; }
  // Takes what was seen from its holder; of a quorum, at each server that has granted it. See
  // cli::Break().
  absl::Status Break(const Sight& seen);

 private:
  std::unique_ptr<Server> server_;         // null: there is a quorum
  std::unique_ptr<QuorumServers> quorum_;  // null: there is a server
  absl::Status undecided_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_INSPECT_LOCKS_H_
