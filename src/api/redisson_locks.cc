#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/fenced_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/read_write_lock.h"
#include "src/lock/kinds.h"

namespace redlatch::redisson {
namespace {

namespace kinds = internal::kinds;

// Redisson's other clients must have a chance at each release.
LockOptions WithoutTurns(LockOptions options) {
  options.turn = absl::ZeroDuration();
  return options;
}

LockTraits TraitsOf(std::string_view kind) { return {.kind = kind, .reentrant = true}; }

std::vector<std::string> OwnKeys() {
  return {std::string(kinds::kYieldSuffix), std::string(kinds::kReadersSuffix)};
}

}  // namespace

Lock::Lock(const Client& client, std::string_view name, LockOptions options)
    : RedisLockBase(client, name, WithoutTurns(std::move(options)), &kinds::kRedissonKeys) {}

LockScripts Lock::Scripts() const { return lua::kRedissonLockScripts; }

LockTraits Lock::Traits() const { return TraitsOf(kinds::kRedissonLock); }

std::vector<std::string> Lock::ExtraKeys() const { return OwnKeys(); }

LockScripts FencedLock::Scripts() const {
  LockScripts scripts = Lock::Scripts();
  scripts.acquire = lua::kRedissonFencedLockAcquire;
  scripts.release = lua::kRedissonFencedLockRelease;
  scripts.inspect = lua::kRedissonFencedLockInspect;
  return scripts;
}

LockTraits FencedLock::Traits() const { return TraitsOf(kinds::kRedissonFencedLock); }

FairLock::FairLock(const Client& client, std::string_view name, LockOptions options,
                   Duration wait_timeout)
    : RedisLockBase(client, name, WithoutTurns(std::move(options)), &kinds::kRedissonKeys),
      wait_timeout_(wait_timeout) {}

LockScripts FairLock::Scripts() const { return lua::kRedissonFairLockScripts; }

LockTraits FairLock::Traits() const { return TraitsOf(kinds::kRedissonFairLock); }

std::vector<std::string> FairLock::ExtraKeys() const {
  std::vector<std::string> keys = OwnKeys();
  keys.emplace_back(kinds::kAliveSuffix);
  return keys;
}

std::vector<std::string> FairLock::ExtraArgs() const {
  return {absl::StrCat(std::max(absl::ToInt64Milliseconds(wait_timeout_), int64_t{1}))};
}

ReadWriteLock::ReadWriteLock(const Client& client, std::string_view name, LockOptions options)
    : ReadWriteLockBase(client, name, WithoutTurns(std::move(options)), &kinds::kRedissonKeys) {}

LockScripts ReadWriteLock::Scripts() const { return lua::kRedissonReadWriteLockScripts; }

LockScripts ReadWriteLock::SharedScripts() const {
  return {
      .acquire = lua::kRedissonReadWriteLockAcquireRead,
      .release = lua::kRedissonReadWriteLockReleaseRead,
      .renew = lua::kRedissonReadWriteLockRenewRead,
      .cancel = lua::kRedissonReadWriteLockCancelRead,
      .inspect = lua::kRedissonReadWriteLockInspect,
      .force_release = lua::kRedissonReadWriteLockForceRelease,
  };
}

LockTraits ReadWriteLock::Traits() const { return TraitsOf(kinds::kRedissonReadWriteLock); }

std::vector<std::string> ReadWriteLock::ExtraKeys() const { return OwnKeys(); }

}  // namespace redlatch::redisson
