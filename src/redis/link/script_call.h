#ifndef REDLATCH_SRC_REDIS_LINK_SCRIPT_CALL_H_
#define REDLATCH_SRC_REDIS_LINK_SCRIPT_CALL_H_

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"

namespace redlatch::redis {

// One call of a script. Nothing is copied: all of it must live until the call returns.
struct ScriptCall {
  const LuaScript* script = nullptr;
  absl::Span<const std::string_view> keys;
  absl::Span<const std::string_view> args;
  bool by_text = false;  // of Post(): the server does not know its SHA-1
  // Of a quorum's batch: no caller waits for this answer any more, though the others go on.
  base::Instant until = base::Instant::Infinite();
};

// Asked before a script is sent again; false ends the call with what it has.
using StillWanted = absl::FunctionRef<bool()>;
inline bool AlwaysWanted() { return true; }

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SCRIPT_CALL_H_
