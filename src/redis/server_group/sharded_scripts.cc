#include "src/redis/server_group/sharded_scripts.h"

#include <utility>

#include "absl/strings/str_replace.h"
#include "src/base/sha1.h"

namespace redlatch::redis {

ScriptCall ShardedScripts::Of(ScriptCall call) {
  const base::MutexLock lock(mu_);
  const auto known = texts_.find(call.script->sha1);
  if (known != texts_.end()) {
    call.script = &known->second->script;
    return call;
  }
  auto text = std::make_unique<Text>();
  text->plain = call.script->sha1;
  text->body =
      absl::StrReplaceAll(absl::string_view(call.script->body.data(), call.script->body.size()),
                          {{"'PUBLISH'", "'SPUBLISH'"}, {"'NUMSUB'", "'SHARDNUMSUB'"}});
  text->sha1 = base::Sha1Hex(text->body);
  text->script = {.body = text->body, .sha1 = text->sha1};
  call.script = &text->script;
  const std::string_view plain = text->plain;
  texts_.emplace(plain, std::move(text));
  return call;
}

}  // namespace redlatch::redis
