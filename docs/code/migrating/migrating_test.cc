// The code of recipes/migrating.md, and tests that run it.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "docs/code/expect.h"
#include "gtest/gtest.h"
#include "redlatch/reentrant_lock.h"

// [red_mutex]
#include <mutex>

#include "redlatch/simple_lock.h"

void Ship(int order);  // stands for your work

void ShipOrder(const redlatch::Client& client) {
  redlatch::SimpleLock mutex(client, "orders:42");
  const std::lock_guard<redlatch::SimpleLock> lock(mutex);
  Ship(42);
}
// [/red_mutex]

// [redisson]
#include "redlatch/redisson/lock.h"

absl::Status TryToShipOrder(const redlatch::Client& client) {
  redlatch::redisson::Lock lock(client, "orders:42");
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();  // kDeadlineExceeded where tryLock() returns false
  Ship(42);
  return lease->Release();  // kAborted where unlock() throws, if the lock was lost
}
// [/redisson]

// [redsync]
absl::Status ShipWithinEightSeconds(const redlatch::Client& client) {
  redlatch::SimpleLock lock(client, "orders:42");
  // A `lease` here makes the hold manual: as in redsync, only Extend() prolongs it.
  absl::StatusOr<redlatch::Lease> lease =
      lock.Acquire({.wait = absl::Seconds(16), .lease = absl::Seconds(8)});
  if (!lease.ok()) return lease.status();
  Ship(42);
  absl::Status extended = lease->Extend(absl::Seconds(8));
  if (!extended.ok()) return extended;
  Ship(43);
  return lease->Release();
}
// [/redsync]

std::string shipped;
void Ship(int order) { shipped += std::to_string(order) + " "; }

// What redis-cli prints when it runs this command on the server of these tests.
std::string RedisCli(const std::string& command) {
  const std::string line = std::string("redis-cli -s ") + getenv("REDLATCH_EMBEDDED_DIRECTORY") +
                           "/redis.sock " + command;
  FILE* const pipe = popen(line.c_str(), "r");
  Expect(pipe != nullptr);
  char text[100] = "";
  Expect(fgets(text, sizeof text, pipe) != nullptr);
  Expect(pclose(pipe) == 0);
  return text;
}

TEST(MigratingRecipe, EachVersionShips) {
  const redlatch::Client client = Connected();
  shipped.clear();
  ShipOrder(client);
  ExpectOk(client.Ping().status());  // the name is free again
  ExpectOk(TryToShipOrder(Connected()));
  ExpectOk(ShipWithinEightSeconds(client));
  EXPECT_EQ(shipped, "42 42 42 43 ");
}

TEST(MigratingRecipe, SimpleLockExcludesProgramsThatUseSetNx) {
  const redlatch::Client client = Connected();
  redlatch::SimpleLock lock(client, "orders:43");
  EXPECT_EQ(RedisCli("SET orders:43 theirs NX PX 60000"), "OK\n");
  EXPECT_TRUE(absl::IsDeadlineExceeded(lock.TryAcquire().status()));
  EXPECT_EQ(RedisCli("DEL orders:43"), "1\n");
  const absl::StatusOr<redlatch::Lease> lease = lock.TryAcquire();
  ExpectOk(lease.status());
  EXPECT_EQ(RedisCli("SET orders:43 theirs NX PX 60000"), "\n");
}

TEST(MigratingRecipe, RedissonKeyIsSharedOnlyByItsOwnClass) {
  const redlatch::Client client = Connected();
  EXPECT_EQ(RedisCli("HSET orders:44 uuid:1 1"), "1\n");
  redlatch::SimpleLock simple(client, "orders:44");
  redlatch::ReentrantLock reentrant(client, "orders:44");
  EXPECT_TRUE(absl::IsFailedPrecondition(simple.TryAcquire().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(reentrant.TryAcquire().status()));
  const redlatch::Client other = Connected();
  redlatch::redisson::Lock shared(other, "orders:44");
  EXPECT_TRUE(absl::IsDeadlineExceeded(shared.TryAcquire().status()));
}
