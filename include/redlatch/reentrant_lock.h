// A recursive mutex for threads, processes and hosts.
#ifndef REDLATCH_REENTRANT_LOCK_H_
#define REDLATCH_REENTRANT_LOCK_H_

#include <string>
#include <string_view>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// Works like std::recursive_timed_mutex, across processes. Its owner, a thread or an Owner, may
// take it again, which costs no round trip. The lock is free once the owner has released it as
// often as it took it. Its methods and its state table are those of RedisLockBase.
//
//   redlatch::ReentrantLock lock(client, "ledger");
//   std::scoped_lock outer(lock);
//   Audit(lock);  // takes it too
//
// Taking it again does not begin a new hold: the hold keeps the lease, the fencing token and the
// stop token of the first acquisition, and a `lease` in the options of a further Acquire() has no
// effect.
class REDLATCH_EXPORT ReentrantLock final : public RedisLockBase {
 public:
  ReentrantLock(const Client& client, std::string_view name, LockOptions options = {});

  // For work that crosses threads or processes: see Owner.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

 private:
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
};

}  // namespace redlatch

#endif  // REDLATCH_REENTRANT_LOCK_H_
