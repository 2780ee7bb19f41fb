#include "redlatch/reentrant_lock.h"

#include <string>
#include <utility>
#include <vector>

#include "lua/scripts.h"
#include "src/lock/kinds.h"

namespace redlatch {
ReentrantLock::ReentrantLock(const Client& client, std::string_view name, LockOptions options)
    : RedisLockBase(client, name, std::move(options), &internal::kinds::kReentrantKeys) {}

LockScripts ReentrantLock::Scripts() const { return lua::kReentrantScripts; }

std::vector<std::string> ReentrantLock::ExtraKeys() const {
  return {std::string(internal::kinds::kHoldsSuffix)};
}

LockTraits ReentrantLock::Traits() const {
  return {.kind = internal::kinds::kReentrant, .reentrant = true, .cacheable = true};
}

}  // namespace redlatch
