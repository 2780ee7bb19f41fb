#include "redlatch/simple_lock.h"

#include <utility>

#include "lua/scripts.h"

namespace redlatch {

SimpleLock::SimpleLock(Client client, std::string_view name, LockOptions options)
    : RedisLockBase(std::move(client), name, std::move(options), "simple") {}

LockScripts SimpleLock::Scripts() const {
  return {.acquire = lua::kSimpleAcquire,
          .release = lua::kSimpleRelease,
          .renew = lua::kSimpleRenew,
          .cancel = lua::kSimpleCancel,
          .inspect = lua::kSimpleInspect,
          .force_release = lua::kSimpleForceRelease};
}

LockTraits SimpleLock::Traits() const { return {.kind = "simple"}; }

}  // namespace redlatch
