// The scripts of a lock, for authors of a lock class: see RedisLockBase, and
// docs/tutorials/06-a-lock-of-your-own.md.
#ifndef REDLATCH_LUA_SCRIPT_H_
#define REDLATCH_LUA_SCRIPT_H_

#include <string_view>

#include "absl/time/time.h"
#include "redlatch/duration.h"

namespace redlatch {

// A script. All three members refer to text that lives as long as the program.
struct LuaScript {
  std::string_view name;  // for messages, such as "simple/acquire"
  // The text for EVAL. Each line `-- include: <piece>` is replaced by that piece of redlatch's
  // own, such as common/time or simple/release: lua/README.md lists them.
  std::string_view body;
  std::string_view sha1 = {};  // of a `body` that includes nothing; computed if it is empty
};

// One script per operation. lua/README.md says what each script gets, and what it must reply.
struct LockScripts {
  LuaScript acquire;
  LuaScript release;
  LuaScript renew;
  LuaScript cancel;
  LuaScript inspect;
  LuaScript force_release;
};

// What the scripts of a class can do.
struct LockTraits {
  // Such as "simple". All locks with one name on one client must be of one kind. The kind is a part
  // of their keys, and has 1 to 64 of a-z, 0-9, '_', '.' and '-'.
  std::string_view kind;
  bool reentrant = false;  // an owner that holds the lock may take it again
  // A waiter sends a heartbeat every third of the lease, and at least this often.
  Duration longest_heartbeat = absl::Seconds(10);
  // Its scripts know of grants that clients cache (LockOptions::cache_for): see lua/README.md.
  bool cacheable = false;
  // AcquireAs() is allowed, although the lock is not reentrant. Each Owner has a request and a hold
  // of its own; otherwise one request stands for all threads of a client.
  bool owners = false;
};

}  // namespace redlatch

#endif  // REDLATCH_LUA_SCRIPT_H_
