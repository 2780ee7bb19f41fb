// Which lock a key belongs to. docs/protocol.md tells what the keys are.
#ifndef REDLATCH_SRC_CLI_LOOK_LOCK_KEYS_H_
#define REDLATCH_SRC_CLI_LOOK_LOCK_KEYS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/lock/key_set.h"
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

// Those that each lock has one key of, at most.
struct PartSuffix {
  std::string_view suffix;
  Part part;
};
inline constexpr PartSuffix kPartSuffixes[] = {{internal::kFenceSuffix, kFence},
                                               {internal::kinds::kReadersSuffix, kReaders},
                                               {internal::kinds::kPermitsSuffix, kPermits},
                                               {internal::kinds::kWritersSuffix, kWriters}};

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

// As Redis matches: * ? [a-z] [^a-z], and \ before what is meant as it stands.
bool MatchesGlob(std::string_view text, std::string_view pattern);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_LOCK_KEYS_H_
