#ifndef REDLATCH_TESTS_SUPPORT_ACQUIRE_AS_H_
#define REDLATCH_TESTS_SUPPORT_ACQUIRE_AS_H_

#include <utility>

#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"

namespace redlatch::support {

// Calls `call` with the lock as its own class, which must support owners.
template <class Call>
auto WithOwners(RedisLockBase& lock, Call call) {
  if (auto* const reentrant = dynamic_cast<ReentrantLock*>(&lock)) return call(*reentrant);
  return call(dynamic_cast<ReentrantReadWriteLock&>(lock));
}

inline absl::StatusOr<Lease> AcquireAs(RedisLockBase& lock, const Owner& owner,
                                       const AcquireOptions& options = {}) {
  return WithOwners(lock, [&](auto& its) { return its.AcquireAs(owner, options); });
}

inline void AcquireAsyncAs(RedisLockBase& lock, const Owner& owner, const AcquireOptions& options,
                           RedisLockBase::AcquireCallback callback) {
  WithOwners(lock, [&](auto& its) { its.AcquireAsyncAs(owner, options, std::move(callback)); });
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_ACQUIRE_AS_H_
