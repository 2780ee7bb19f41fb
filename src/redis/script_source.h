// A Lua script as it is embedded at build time; the generated "lua/scripts.h" holds one for each
// lua/<folder>/<operation>.lua, named kFolderOperation, in namespace redlatch::lua.
#ifndef REDLATCH_SRC_REDIS_SCRIPT_SOURCE_H_
#define REDLATCH_SRC_REDIS_SCRIPT_SOURCE_H_

#include <string_view>

namespace redlatch::redis {

struct ScriptSource {
  std::string_view name;  // "simple/acquire"
  std::string_view body;  // what EVAL is given; includes are resolved
  std::string_view sha1;  // what EVALSHA is given: 40 lower-case hex digits, of `body`
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SCRIPT_SOURCE_H_
