// A mutex for threads, processes and hosts.
#ifndef REDLATCH_SIMPLE_LOCK_H_
#define REDLATCH_SIMPLE_LOCK_H_

#include <string_view>

#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// Where std::timed_mutex stands, across processes:
//
//   redlatch::SimpleLock lock(client, "orders:42");
//   std::scoped_lock guard(lock);
//
// or with all that a distributed lock can say:
//
//   absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
//   if (!lease.ok()) return lease.status();
//   store.Write(row, lease->fencing_token());
//
// Waiters get it in their order, across all clients (LockOptions::turn bends that within a
// client). Its key in Redis is a plain string: it excludes, and is excluded by, any other program
// that locks the same key with `SET key value NX PX`; such a program tells nobody when it lets go,
// so that waiting for it means asking again two to twenty times a second.
//
// Its methods, their errors, and when it may be destroyed: see RedisLockBase.
class REDLATCH_EXPORT SimpleLock final : public RedisLockBase {
 public:
  SimpleLock(Client client, std::string_view name, LockOptions options = {});

 private:
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
};

}  // namespace redlatch

#endif  // REDLATCH_SIMPLE_LOCK_H_
