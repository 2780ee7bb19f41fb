#include "redlatch/reentrant_lock.h"

#include <string>
#include <utility>
#include <vector>

#include "lua/scripts.h"

namespace redlatch {

ReentrantLock::ReentrantLock(Client client, std::string_view name, LockOptions options)
    : RedisLockBase(std::move(client), name, std::move(options), "reentrant") {}

LockScripts ReentrantLock::Scripts() const {
  return {.acquire = lua::kReentrantAcquire,
          .release = lua::kReentrantRelease,
          .renew = lua::kReentrantRenew,
          .cancel = lua::kReentrantCancel,
          .inspect = lua::kReentrantInspect,
          .force_release = lua::kReentrantForceRelease};
}

std::vector<std::string> ReentrantLock::ExtraKeys() const { return {"reentrant.holds"}; }

LockTraits ReentrantLock::Traits() const { return {.kind = "reentrant", .reentrant = true}; }

}  // namespace redlatch
