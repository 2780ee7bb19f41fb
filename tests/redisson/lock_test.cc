// What holds for each lock that excludes all others, with a Java program on the other side.
#include "tests/redisson/redisson_testing.h"

namespace redlatch {
namespace {

class RedissonLock : public RedissonKindTest {};
REDLATCH_FOR_EACH_REDISSON_LOCK(RedissonLock);

TEST_P(RedissonLock, ExcludesBothWays) {
  for (const std::string name : {"orders", "two words", "{orders}:42", "a{b}c d", "Grüße"}) {
    SCOPED_TRACE(name);
    const auto lock = MakeLock({}, name);
    auto lease = Must(lock->TryAcquire());
    EXPECT_EQ(java().Do("1", "tryLock", kind(), name, 0, -1), "false");
    EXPECT_TRUE(lease.Release().ok());
    EXPECT_EQ(java().Do("1", "tryLock", kind(), name, 0, -1), "true");
    EXPECT_TRUE(IsBusy(lock->TryAcquire().status()));
    EXPECT_FALSE(lock->try_lock());
    EXPECT_EQ(java().Do("1", "unlock", kind(), name), "");
    EXPECT_TRUE(lock->TryAcquire().ok());
  }
}

TEST_P(RedissonLock, IsReentrantInBothLanguages) {
  const auto lock = MakeLock();
  lock->lock();
  lock->lock();
  EXPECT_EQ(lock->hold_count(), 2);
  lock->unlock();
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 0, -1), "false");
  lock->unlock();
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 10'000, -1), "true");
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 0, -1), "true");
  EXPECT_EQ(java().Do("1", "holdCount", kind(), "orders"), "2");
  EXPECT_EQ(java().Do("1", "unlock", kind(), "orders"), "");
  EXPECT_TRUE(IsBusy(lock->TryAcquire().status()));
  EXPECT_EQ(java().Do("1", "unlock", kind(), "orders"), "");
  EXPECT_TRUE(lock->TryAcquire().ok());
}

TEST_P(RedissonLock, WatchdogKeepsItFromOthers) {
  const auto java = ConnectJava({.watchdog = absl::Milliseconds(600)});
  ASSERT_EQ(java->Do("1", "lock", kind(), "orders"), "");
  const auto lock = MakeLock();
  EXPECT_TRUE(IsBusy(lock->Acquire({.wait = absl::Milliseconds(1500)}).status()));
  EXPECT_EQ(java->Do("1", "isHeld", kind(), "orders"), "true");
  EXPECT_EQ(java->Do("1", "unlock", kind(), "orders"), "");
}

TEST_P(RedissonLock, RenewalsKeepItFromJava) {
  const auto lock = MakeLock({.lease = absl::Milliseconds(600)});
  auto lease = Must(lock->Acquire());
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 1500, -1), "false");
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(lease.Release().ok());
}

TEST_P(RedissonLock, HolderLearnsOfForceUnlock) {
  const auto lock = MakeLock({.lease = absl::Seconds(1)});
  auto lease = Must(lock->Acquire());
  EXPECT_EQ(java().Do("1", "forceUnlock", kind(), "orders"), "true");
  EXPECT_TRUE(Fires(lease.lost()));
  EXPECT_TRUE(IsLeaseLost(lease.Release()));
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 0, -1), "true");
}

TEST_P(RedissonLock, ForceReleaseTakesItFromJava) {
  ASSERT_EQ(java().Do("1", "lock", kind(), "orders"), "");
  const auto lock = MakeLock();
  EXPECT_TRUE(lock->ForceRelease().ok());
  const auto lease = Must(lock->TryAcquire());
  EXPECT_THAT(java().Do("1", "unlock", kind(), "orders"), HasSubstr("IllegalMonitorState"));
}

TEST_P(RedissonLock, JavaUnlockWakesWaiter) {
  ASSERT_EQ(java().Do("1", "lock", kind(), "orders"), "");
  const auto lock = MakeLock();
  auto waiter = AcquireInThread(*lock);
  ASSERT_TRUE(AwaitWaiters(server(), kind(), "orders", 1));
  const absl::Duration took = TimeOf([&] {
    EXPECT_EQ(java().Do("1", "unlock", kind(), "orders"), "");
    const auto lease = Must(waiter.get());
  });
  EXPECT_LT(took, kSoon);
}

TEST_P(RedissonLock, EveryReleaseWakesJavaWaiter) {
  const auto lock = MakeLock();
  for (const std::string how : {"unlock", "release", "force"}) {
    SCOPED_TRACE(how);
    std::optional<Lease> lease;
    if (how == "unlock") {
      lock->lock();
    } else {
      lease = Must(lock->Acquire({.wait = kLong}));
    }
    const PendingReply waiter = java().Send("1", "lock", kind(), "orders");
    ASSERT_TRUE(AwaitWaiters(server(), kind(), "orders", 1));
    EXPECT_FALSE(waiter.done());
    if (how == "unlock") {
      lock->unlock();
    } else {
      EXPECT_TRUE((how == "force" ? lock->ForceRelease() : lease->Release()).ok());
    }
    EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
    EXPECT_EQ(java().Do("1", "unlock", kind(), "orders"), "");
  }
}

// Redisson's '1', with which a writer wakes all threads of a client, would miss this thread.
TEST_P(RedissonLock, ReleaseWakesJavaThreadThatHasJustAsked) {
  TcpProxy proxy(support::TcpProxyOptions{.port = server().port()});
  JavaClient java(SharedJvm(), proxy.url());
  ASSERT_EQ(java.Do("1", "lock", kind(), "other"), "");  // loads the script
  const auto lock = MakeLock();
  auto lease = Must(lock->Acquire());
  // The thread asks, listens, and asks again. It waits only when it has the second reply, which the
  // message overtakes.
  proxy.Delay(Direction::kToClient, absl::Milliseconds(500));
  server().Do({"CONFIG", "RESETSTAT"});
  const PendingReply waiter = java.Send("1", "lock", kind(), "orders");
  ASSERT_TRUE(Await([&] {
    return absl::StrContains(server().Text({"INFO", "commandstats"}), "cmdstat_evalsha:calls=2,");
  }));
  proxy.Delay(Direction::kToClient, absl::ZeroDuration());
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
}

TEST_P(RedissonLock, JavaLeaseWithoutWatchdogEnds) {
  ASSERT_EQ(java().Do("1", "tryLock", kind(), "orders", 5000, 600), "true");
  const auto lock = MakeLock();
  EXPECT_TRUE(IsBusy(lock->TryAcquire().status()));
  absl::StatusOr<Lease> lease;
  const absl::Duration took = TimeOf([&] { lease = lock->Acquire({.wait = kLong}); });
  EXPECT_TRUE(lease.ok()) << lease.status();
  EXPECT_LT(took, kSoon);
  EXPECT_THAT(java().Do("1", "unlock", kind(), "orders"), HasSubstr("IllegalMonitorState"));
}

TEST_P(RedissonLock, ManualLeaseEndsForJava) {
  const auto lock = MakeLock();
  auto lease = Must(lock->Acquire({.wait = absl::Seconds(5), .lease = absl::Milliseconds(600)}));
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 0, 600), "false");
  EXPECT_TRUE(java().Send("1", "lock", kind(), "orders").Get(kSoon).ok);
  EXPECT_TRUE(lease.lost().stop_requested());
  EXPECT_TRUE(IsLeaseLost(lease.Release()));
  EXPECT_EQ(java().Do("1", "isHeld", kind(), "orders"), "true");
}

TEST_P(RedissonLock, GivenUpWaitLeavesNothing) {
  ASSERT_EQ(java().Do("1", "lock", kind(), "orders"), "");
  const auto lock = MakeLock();
  EXPECT_TRUE(IsBusy(lock->Acquire({.wait = absl::Milliseconds(50)}).status()));
  EXPECT_EQ(java().Do("2", "tryLock", kind(), "orders", 50, -1), "false");
  EXPECT_EQ(java().Do("1", "unlock", kind(), "orders"), "");
  EXPECT_EQ(java().Do("2", "tryLock", kind(), "orders", 0, -1), "true");
  EXPECT_EQ(java().Do("2", "unlock", kind(), "orders"), "");
  EXPECT_TRUE(lock->TryAcquire().ok());
}

class RedissonFencedLock : public RedissonTest {};

TEST_F(RedissonFencedLock, TokensGrowAcrossLanguages) {
  uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    const std::string javas = java().Do("1", "lockAndGetToken", "fenced", "orders");
    uint64_t token = 0;
    ASSERT_TRUE(absl::SimpleAtoi(javas, &token)) << javas;
    EXPECT_GT(token, last);
    EXPECT_EQ(java().Do("1", "unlock", "fenced", "orders"), "");
    auto lease = Must(redisson::FencedLock(client(), "orders").Acquire({.wait = kLong}));
    EXPECT_GT(lease.fencing_token().value(), token);
    last = lease.fencing_token().value();
    EXPECT_EQ(java().Do("1", "getToken", "fenced", "orders"), absl::StrCat(last));
    EXPECT_TRUE(lease.Release().ok());
  }
}

}  // namespace
}  // namespace redlatch
