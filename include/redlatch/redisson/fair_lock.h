// A fair lock that Java programs share through Redisson's RFairLock.
#ifndef REDLATCH_REDISSON_FAIR_LOCK_H_
#define REDLATCH_REDISSON_FAIR_LOCK_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch::redisson {

// The same lock as `redisson.getFairLock(name)` in Java. Waiters of both languages get it in the
// order in which they asked. Its methods are those of RedisLockBase.
//
// In Java, each thread has a place in the queue. In C++, each client has one, in which its threads
// follow each other: the next thread queues again, at the end. Each Owner has a place of its own.
//
// A waiter that dies keeps its place, and delays those behind it, until its `wait_timeout` is
// over. This is Java's fairLockWaitTimeout: give all programs the same. A C++ waiter that lives
// keeps its place for as long as it waits; a Java waiter loses it after its timeout, and queues
// again at the end. C++ programs pass over a dead C++ waiter after three missed heartbeats (30 s).
class REDLATCH_EXPORT FairLock final : public RedisLockBase {
 public:
  FairLock(const Client& client, std::string_view name, LockOptions options = {},
           Duration wait_timeout = absl::Minutes(5));

  // For work that crosses threads or processes: see Owner.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

 private:
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
  std::vector<std::string> ExtraArgs() const override;

  const absl::Duration wait_timeout_;
};

}  // namespace redlatch::redisson

#endif  // REDLATCH_REDISSON_FAIR_LOCK_H_
