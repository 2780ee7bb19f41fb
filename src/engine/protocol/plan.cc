#include "src/engine/protocol/plan.h"

#include <utility>

#include "src/base/sha1.h"
#include "src/engine/protocol/assemble.h"

namespace redlatch::engine {
namespace {

bool SameScript(const LuaScript& a, const LuaScript& b) {
  return a.body.data() == b.body.data() || a.body == b.body;
}

}  // namespace

bool Plan::SameAs(const Plan& other) const {
  return traits.kind == other.traits.kind && sharing == other.sharing &&
         traits.reentrant == other.traits.reentrant &&
         SameScript(told.acquire, other.scripts.acquire) &&
         SameScript(told.release, other.scripts.release) &&
         SameScript(told.renew, other.scripts.renew) &&
         SameScript(told.cancel, other.scripts.cancel) && keys == other.keys &&
         extra_args == other.extra_args;
}

absl::StatusOr<Plan> Complete(Plan plan) {
  plan.told = plan.scripts;
  plan.texts.reserve(12);
  for (LuaScript* script :
       {&plan.scripts.acquire, &plan.scripts.release, &plan.scripts.renew, &plan.scripts.cancel,
        &plan.scripts.inspect, &plan.scripts.force_release}) {
    if (!script->sha1.empty()) continue;
    absl::StatusOr<std::string> assembled = Assemble(script->body);
    if (!assembled.ok()) return assembled.status();
    script->body = plan.texts.emplace_back(*std::move(assembled));
    script->sha1 = plan.texts.emplace_back(base::Sha1Hex(script->body));
  }
  return plan;
}

}  // namespace redlatch::engine
