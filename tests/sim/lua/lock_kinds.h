// The kinds of locks, as their scripts know them.
#ifndef REDLATCH_TESTS_SIM_LUA_LOCK_KINDS_H_
#define REDLATCH_TESTS_SIM_LUA_LOCK_KINDS_H_

#include <ostream>

#include "lua/scripts.h"
#include "redlatch/lua_script.h"
#include "tests/support/testing.h"

namespace redlatch {

// A kind's scripts, and the keys and arguments that only this kind has.
struct LockKind {
  std::string name;
  LockScripts scripts;
  std::string stored = name;                    // as the main key says, if that is a hash
  std::vector<std::string> own_keys = {};       // what their names end with: "holds"
  std::vector<std::string> force_keys = {};     // those of a forced release alone
  std::vector<std::string> more_args = {};      // ARGV of an acquire
  std::vector<std::string> last_args = {};      // ARGV that end those of every script
  std::vector<std::string> release_args = {};   // of a plain release
  std::string owner = "CLIENT";                 // of a request of that client
  int amount = 1;                               // tokens to reserve, or permits
  bool has_tokens = true;                       // and its grants tell how many wait
  std::string held = "[\"held\"]";              // what a renewal answers
  std::string leased = "";                      // the key that expires with its grant; else N
  std::vector<std::string> queues = {"queue"};  // in the order in which they are served
};

inline void PrintTo(const LockKind& kind, std::ostream* out) { *out << kind.name; }
inline std::string NameOfKind(const ::testing::TestParamInfo<LockKind>& info) {
  return info.param.name;
}

inline LockKind SimpleKind() { return {.name = "simple", .scripts = lua::kSimpleScripts}; }
inline LockKind ElectionKind() {
  return {
      .name = "election", .scripts = lua::kElectionScripts, .own_keys = {"leader", "observers"}};
}
inline LockKind ReentrantKind() {
  return {.name = "reentrant", .scripts = lua::kReentrantScripts, .own_keys = {"holds"}};
}
// Writers, and readers.
inline LockKind WriteKind() {
  return {.name = "write",
          .scripts = lua::kReadWriteScripts,
          .stored = "read_write",
          .own_keys = {"readers", "writers", "holds"},
          .more_args = {"writer_first"},
          .queues = {"writers", "queue"}};
}
inline LockKind ReadKind() {
  return {.name = "read",
          .scripts = {.acquire = lua::kReadWriteAcquireRead,
                      .release = lua::kReadWriteReleaseRead,
                      .renew = lua::kReadWriteRenewRead,
                      .cancel = lua::kReadWriteCancelRead,
                      .inspect = lua::kReadWriteInspect,
                      .force_release = lua::kReadWriteForceRelease},
          .stored = "read_write",
          .own_keys = {"readers", "writers", "holds"},
          .owner = "read:1:CLIENT",
          .held = "[\"held\", 0]",
          .leased = "readers"};
}
// Each grant has all permits.
inline LockKind SemaphoreKind(int permits = 1) {
  return {.name = permits == 1 ? "semaphore" : "permits",
          .scripts = lua::kSemaphoreScripts,
          .stored = "semaphore",
          .own_keys = {"permits"},
          .force_keys = {"forced"},
          .more_args = {std::to_string(permits)},
          .amount = permits,
          .has_tokens = false,
          .leased = "permits"};
}
// One node of a quorum.
inline LockKind QuorumKind() {
  return {.name = "quorum",
          .scripts = lua::kQuorumScripts,
          .own_keys = {"turn"},
          .more_args = {"0 take"},
          .release_args = {"0"}};
}
inline LockKind LatchKind() {
  return {.name = "latch",
          .scripts = {.acquire = lua::kLatchAcquire, .cancel = lua::kLatchCancel},
          .own_keys = {"counted"},
          .owner = "latch:60000:CLIENT:1",
          .has_tokens = false};
}

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_LOCK_KINDS_H_
