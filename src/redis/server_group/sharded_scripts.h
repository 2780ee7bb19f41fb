#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SHARDED_SCRIPTS_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SHARDED_SCRIPTS_H_

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "redlatch/lua_script.h"
#include "src/base/mutex.h"
#include "src/redis/link/script_call.h"

namespace redlatch::redis {

// Scripts as a cluster runs them: what they say on a channel goes to the node that serves the
// channel's slot, which is the one that runs them, and that node is asked who hears it. So they say
// 'SPUBLISH' where they say 'PUBLISH' elsewhere, and 'SHARDNUMSUB' for 'NUMSUB', and are the same
// otherwise. Thread-safe.
class ShardedScripts {
 public:
  ScriptCall Of(ScriptCall call);

 private:
  struct Text {
    std::string plain;  // the SHA-1 of what it was made of
    std::string body;
    std::string sha1;
    LuaScript script;
  };

  base::Mutex mu_;
  // By `plain`.
  std::unordered_map<std::string_view, std::unique_ptr<const Text>> texts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SHARDED_SCRIPTS_H_
