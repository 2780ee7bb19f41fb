// A Lua script as it is embedded at build time; the generated "lua/scripts.h" holds one for each
// lua/<folder>/<operation>.lua, named kFolderOperation, in namespace redlatch::lua.
#ifndef REDLATCH_SRC_REDIS_LINK_SCRIPT_SOURCE_H_
#define REDLATCH_SRC_REDIS_LINK_SCRIPT_SOURCE_H_

#include "redlatch/lua_script.h"

namespace redlatch::redis {

using ScriptSource = LuaScript;

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SCRIPT_SOURCE_H_
