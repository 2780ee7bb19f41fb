#ifndef REDLATCH_TESTS_SUPPORT_ACQUIRE_AS_H_
#define REDLATCH_TESTS_SUPPORT_ACQUIRE_AS_H_

#include <utility>

#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/fenced_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/read_write_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"

namespace redlatch::support {

// Calls `call` with the lock as its own class, which must support owners.
template <class Call>
auto WithOwners(RedisLockBase& lock, Call call) {
  if (auto* const its = dynamic_cast<ReentrantLock*>(&lock)) return call(*its);
  if (auto* const its = dynamic_cast<redisson::Lock*>(&lock)) return call(*its);
  if (auto* const its = dynamic_cast<redisson::FencedLock*>(&lock)) return call(*its);
  if (auto* const its = dynamic_cast<redisson::FairLock*>(&lock)) return call(*its);
  if (auto* const its = dynamic_cast<redisson::ReadWriteLock*>(&lock)) return call(*its);
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
