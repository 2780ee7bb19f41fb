// A lock that Java programs share through Redisson's RLock.
#ifndef REDLATCH_REDISSON_LOCK_H_
#define REDLATCH_REDISSON_LOCK_H_

#include <string>
#include <string_view>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch::redisson {

// The same lock as `redisson.getLock(name)` in Java, with the same keys and messages. Its methods
// are those of RedisLockBase. It is reentrant, as in Java.
//
//   redlatch::redisson::Lock lock(client, "orders:42");
//   std::scoped_lock guard(lock);
//
//   Java                                      C++
//   lock(), unlock()                          lock(), unlock(), or Acquire() and its Lease
//   tryLock(5, SECONDS)                       try_lock_for(5s), or Acquire({.wait = 5s})
//   tryLock(5, 60, SECONDS): no watchdog      Acquire({.wait = 5s, .lease = 60s})
//   lockWatchdogTimeout                       LockOptions::lease
//   forceUnlock()                             ForceRelease()
//
// Redisson's protocol promises less than redlatch's own: waiters come in no order, a release does
// not hand the lock over, and there is no fencing token (see FencedLock). docs/redisson.md lists
// what it can promise. LockOptions::turn has no effect, and `cache_for` is refused.
//
// A name that one of redlatch's own locks uses is refused (kFailedPrecondition), and vice versa.
class REDLATCH_EXPORT Lock : public RedisLockBase {
 public:
  Lock(const Client& client, std::string_view name, LockOptions options = {});

  // For work that crosses threads or processes: see Owner.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

 protected:
  LockScripts Scripts() const override;

 private:
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
};

}  // namespace redlatch::redisson

#endif  // REDLATCH_REDISSON_LOCK_H_
