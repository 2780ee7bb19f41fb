#include "redlatch/simple_lock.h"

#include <utility>

#include "lua/scripts.h"
#include "src/lock/kinds.h"

namespace redlatch {

SimpleLock::SimpleLock(const Client& client, std::string_view name, LockOptions options)
    : RedisLockBase(client, name, std::move(options), &internal::kinds::kSimpleKeys) {}

LockScripts SimpleLock::Scripts() const { return lua::kSimpleScripts; }

LockTraits SimpleLock::Traits() const {
  return {.kind = internal::kinds::kSimple, .cacheable = true};
}

}  // namespace redlatch
