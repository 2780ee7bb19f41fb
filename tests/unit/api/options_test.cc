// A class has only the options that it can use. Any other option does not compile.

#include "redlatch/client.h"
#include "redlatch/lock_options.h"
#include "redlatch/multi_lock.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/lock/client_core.h"
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

// Locks with equal options share them.
TEST(Options, ThatDifferInOneMemberAreNotShared) {
  const auto client = Client::Connect("redis://127.0.0.1:1", {.connect = ConnectPolicy::kLazy});
  ASSERT_TRUE(client.ok()) << client.status();
  internal::ClientCore& core = *client->core();
  for (const LockOptions& options :
       {LockOptions{.lease = 1s}, LockOptions{.turn = 1s}, LockOptions{.cache_for = 1s},
        LockOptions{.acks = {.replicas = 1}}, LockOptions{.acks = {.fsync = true}},
        LockOptions{.acks = {.timeout = 1s}}, LockOptions{.stop_margin = 1s},
        LockOptions{.at_most = 40s}, LockOptions{.grace = 1s}, LockOptions{.tell_if_wanted = true},
        LockOptions{.on_lost = [](const LostLease&) {}},
        LockOptions{.on_wanted = [](const WantedLease&) {}}}) {
    const auto plain = core.Share({});
    EXPECT_EQ(core.Share({}), plain);
    EXPECT_NE(core.Share(options), plain);
  }
}

}  // namespace
}  // namespace redlatch
