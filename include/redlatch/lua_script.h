// The scripts of a lock, for those who write a lock of their own: see RedisLockBase, and
// docs/tutorials/06-a-lock-of-your-own.md.
#ifndef REDLATCH_LUA_SCRIPT_H_
#define REDLATCH_LUA_SCRIPT_H_

#include <string_view>

#include "absl/time/time.h"

namespace redlatch {

// All three refer to text that lives as long as the program.
struct LuaScript {
  std::string_view name;       // for messages, such as "simple/acquire"
  std::string_view body;       // what EVAL is given
  std::string_view sha1 = {};  // of `body`, 40 lower-case hex digits; computed where it is empty
};

// One script an operation. What each is given, and what it must answer, stands in lua/README.md.
struct LockScripts {
  LuaScript acquire;
  LuaScript release;
  LuaScript renew;
  LuaScript cancel;
  LuaScript inspect;
  LuaScript force_release;
};

struct LockTraits {
  std::string_view kind;   // "simple"; locks of one name on one client are of one kind
  bool reentrant = false;  // an owner that holds the lock may take it again
  // How often a waiter tells that it lives: each third of the lease, and at least so often.
  absl::Duration longest_heartbeat = absl::Seconds(10);
};

}  // namespace redlatch

#endif  // REDLATCH_LUA_SCRIPT_H_
