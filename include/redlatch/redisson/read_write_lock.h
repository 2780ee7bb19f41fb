// A lock for readers and writers that Java programs share through Redisson's RReadWriteLock.
#ifndef REDLATCH_REDISSON_READ_WRITE_LOCK_H_
#define REDLATCH_REDISSON_READ_WRITE_LOCK_H_

#include <string>
#include <string_view>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/read_write_lock_base.h"

namespace redlatch::redisson {

// The same lock as `redisson.getReadWriteLock(name)` in Java: its readLock() is the shared side,
// and its writeLock() the methods of RedisLockBase.
//
//   redlatch::redisson::ReadWriteLock lock(client, "prices");
//   { std::shared_lock reading(lock); Print(prices); }
//   { std::scoped_lock writing(lock); prices.Update(); }
//
// As in Java, a thread that writes may also read, and then keeps the read lock if it unlocks the
// write lock first. A thread that reads cannot write: in C++ this is refused (see
// ReentrantReadWriteLock), in Java it waits for itself. Writers do not hold back readers, so
// readers that overlap without a pause starve writers.
class REDLATCH_EXPORT ReadWriteLock final : public ReadWriteLockBase {
 public:
  ReadWriteLock(const Client& client, std::string_view name, LockOptions options = {});

  // For writers whose work crosses threads or processes: see Owner.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

 private:
  LockScripts Scripts() const override;
  LockScripts SharedScripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
};

}  // namespace redlatch::redisson

#endif  // REDLATCH_REDISSON_READ_WRITE_LOCK_H_
