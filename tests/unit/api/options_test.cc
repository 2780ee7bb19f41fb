// A class has only the options that it can use. Any other option does not compile.
#include <chrono>

#include "redlatch/lock_options.h"
#include "redlatch/multi_lock.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

using namespace std::chrono_literals;

template <class Options>
concept Cached = requires {
  Options{.cache_for = 1s};
};
template <class Options>
concept Acked = requires {
  Options{.acks = {.replicas = 1}};
};
template <class Options>
concept TakesTurns = requires {
  Options{.turn = 1s};
};
static_assert(Cached<LockOptions> && Acked<LockOptions> && TakesTurns<LockOptions>);
static_assert(!Cached<RedLockOptions> && !Acked<RedLockOptions> && TakesTurns<RedLockOptions>);
static_assert(!Cached<MultiLockOptions> && Acked<MultiLockOptions> && TakesTurns<MultiLockOptions>);
static_assert(!Cached<SemaphoreOptions> && !Acked<SemaphoreOptions> &&
              TakesTurns<SemaphoreOptions>);

template <class Lock>
concept HasOwners = requires(Lock& lock, const Owner& owner) {
  lock.AcquireAs(owner);
};
static_assert(HasOwners<ReentrantLock> && HasOwners<ReentrantReadWriteLock>);
static_assert(!HasOwners<SimpleLock> && !HasOwners<RedLock> && !HasOwners<RedisLockBase>);

TEST(Options, TakeStdAndAbslDurations) {
  const AcquireOptions of_std{.wait = 5s, .lease = 1min};
  const AcquireOptions of_absl{.wait = absl::Seconds(5), .lease = absl::Minutes(1)};
  EXPECT_EQ(absl::Duration(of_std.wait), absl::Duration(of_absl.wait));
  EXPECT_EQ(absl::Duration(*of_std.lease), absl::Duration(*of_absl.lease));
}

}  // namespace
}  // namespace redlatch
