// A mutex for threads, processes and hosts.
#ifndef REDLATCH_SIMPLE_LOCK_H_
#define REDLATCH_SIMPLE_LOCK_H_

#include <string_view>

#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// Works like std::timed_mutex, across processes. Its methods and its state table are those of
// RedisLockBase.
//
//   redlatch::SimpleLock lock(client, "orders:42");
//   std::scoped_lock guard(lock);
//
//   absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = 5s});
//   if (!lease.ok()) return lease.status();
//   store.Write(row, lease->fencing_token());
//
// Waiters of all clients get the lock in the order in which they asked (but see LockOptions::turn).
// The lock's key in Redis is a plain string, so the lock also excludes any other program that locks
// the key by `SET key value NX PX`. Such a program does not announce its release, so waiters ask
// the server two to twenty times per second while it holds the lock.
class REDLATCH_EXPORT SimpleLock final : public RedisLockBase {
 public:
  SimpleLock(const Client& client, std::string_view name, LockOptions options = {});

 private:
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
};

}  // namespace redlatch

#endif  // REDLATCH_SIMPLE_LOCK_H_
