#include "redlatch/simple_lock.h"

#include <utility>

#include "lua/scripts.h"
#include "src/engine/protocol/kinds.h"

namespace redlatch {

SimpleLock::SimpleLock(Client client, std::string_view name, LockOptions options)
    : RedisLockBase(std::move(client), name, std::move(options), engine::kinds::kSimple) {}

LockScripts SimpleLock::Scripts() const {
  return {.acquire = lua::kSimpleAcquire,
          .release = lua::kSimpleRelease,
          .renew = lua::kSimpleRenew,
          .cancel = lua::kSimpleCancel,
          .inspect = lua::kSimpleInspect,
          .force_release = lua::kSimpleForceRelease};
}

LockTraits SimpleLock::Traits() const { return {.kind = engine::kinds::kSimple}; }

}  // namespace redlatch
