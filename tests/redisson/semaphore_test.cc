#include "tests/redisson/redisson_testing.h"

namespace redlatch {
namespace {

struct RedissonSemaphore : RedissonTest {
  void Start() override {
    RedissonTest::Start();
    ASSERT_EQ(java().Do("1", "semaphore.trySetPermits", "slots", 3), "true");
  }
  std::string JavaAvailable() { return java().Do("1", "semaphore.availablePermits", "slots"); }
};

TEST_F(RedissonSemaphore, CountsPermitsOfBothLanguages) {
  redisson::Semaphore slots(client(), "slots");
  auto two = Must(slots.Acquire(2));
  EXPECT_EQ(JavaAvailable(), "1");
  EXPECT_EQ(java().Do("1", "semaphore.tryAcquire", "slots", 2, 0), "false");
  EXPECT_EQ(java().Do("1", "semaphore.tryAcquire", "slots", 1, 0), "true");
  EXPECT_TRUE(IsBusy(slots.TryAcquire().status()));
  EXPECT_TRUE(two.Release().ok());
  EXPECT_EQ(JavaAvailable(), "2");
  EXPECT_EQ(java().Do("1", "semaphore.release", "slots", 1), "");
  const auto available = Must(slots.AvailablePermits());
  EXPECT_EQ(available, 3);
}

TEST_F(RedissonSemaphore, IsSetOnceByEitherLanguage) {
  redisson::Semaphore slots(client(), "slots");
  EXPECT_FALSE(Must(slots.TrySetPermits(8)));
  EXPECT_TRUE(slots.AddPermits(2).ok());
  EXPECT_EQ(JavaAvailable(), "5");
  EXPECT_EQ(java().Do("1", "semaphore.addPermits", "slots", -4), "");
  EXPECT_EQ(slots.AvailablePermits().value_or(-1), 1);

  EXPECT_TRUE(Must(redisson::Semaphore(client(), "others").TrySetPermits(8)));
  EXPECT_EQ(java().Do("1", "semaphore.trySetPermits", "others", 2), "false");
  EXPECT_EQ(java().Do("1", "semaphore.availablePermits", "others"), "8");
}

TEST_F(RedissonSemaphore, JavaReleaseWakesWaiter) {
  ASSERT_EQ(java().Do("1", "semaphore.acquire", "slots", 3), "");
  redisson::Semaphore slots(client(), "slots");
  auto waiter = InThread([&slots] { return slots.Acquire(2, {.wait = kLong}); });
  ASSERT_TRUE(AwaitWaiters(server(), "semaphore", "slots", 1));
  const absl::Duration took = TimeOf([&] {
    EXPECT_EQ(java().Do("1", "semaphore.release", "slots", 1), "");
    EXPECT_EQ(java().Do("1", "semaphore.release", "slots", 1), "");
    const auto permit = Must(waiter.get());
  });
  EXPECT_LT(took, kSoon);
}

TEST_F(RedissonSemaphore, ReleaseWakesJavaWaiter) {
  auto all = Must(redisson::Semaphore(client(), "slots").Acquire(3));
  const PendingReply waiter = java().Send("1", "semaphore.acquire", "slots", 2);
  ASSERT_TRUE(AwaitWaiters(server(), "semaphore", "slots", 1));
  EXPECT_TRUE(all.Release().ok());
  EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
  EXPECT_EQ(java().Do("2", "semaphore.availablePermits", "slots"), "1");
}

TEST_F(RedissonSemaphore, StdFaceSharesPermits) {
  redisson::Semaphore slots(client(), "slots");
  slots.acquire();
  EXPECT_EQ(JavaAvailable(), "2");
  ASSERT_EQ(java().Do("1", "semaphore.acquire", "slots", 2), "");
  EXPECT_FALSE(slots.try_acquire());
  slots.release();
  // release() does not wait for the server.
  EXPECT_EQ(java().Do("1", "semaphore.tryAcquire", "slots", 1, 10'000), "true");
}

// Acquires a permit of that kind, with a short lease, and is killed.
REDLATCH_CHILD(PermitHolder) {
  const Client client = Connect(args.at(0));
  const SemaphoreOptions options = {.lease = absl::Milliseconds(600)};
  redisson::Semaphore plain(client, "slots", options);
  redisson::PermitExpirableSemaphore expirable(client, "slots", options);
  redisson::Semaphore& slots = args.at(1) == "expirable" ? expirable : plain;
  const auto permit = Must(slots.Acquire());
  parent.WriteLine("acquired");
  parent.ReadLine(absl::Minutes(1));
  return 0;
}

TEST_F(RedissonSemaphore, KilledHolderGivesItsPermitBack) {
  const auto child = support::SpawnChild("PermitHolder", {server().url(), "plain"});
  ASSERT_EQ(child->pipe().ReadLine(), "acquired");
  EXPECT_EQ(JavaAvailable(), "2");
  child->Kill();
  const auto all = Must(redisson::Semaphore(client(), "slots").Acquire(3, {.wait = kLong}));
}

struct RedissonPermitExpirableSemaphore : RedissonTest {
  void Start() override {
    RedissonTest::Start();
    ASSERT_EQ(java().Do("1", "expirable.trySetPermits", "slots", 2), "true");
  }
  std::string JavaAvailable() { return java().Do("1", "expirable.availablePermits", "slots"); }
};

TEST_F(RedissonPermitExpirableSemaphore, CountsPermitsOfBothLanguages) {
  redisson::PermitExpirableSemaphore slots(client(), "slots");
  auto one = Must(slots.Acquire());
  EXPECT_EQ(JavaAvailable(), "1");
  EXPECT_EQ(java().Do("1", "expirable.acquiredPermits", "slots"), "1");
  const std::string javas = java().Do("1", "expirable.tryAcquire", "slots", 0, 30'000);
  EXPECT_THAT(javas, Not(AnyOf(StartsWith("error"), "null")));
  EXPECT_TRUE(IsBusy(slots.TryAcquire().status()));
  EXPECT_EQ(java().Do("1", "expirable.tryAcquire", "slots", 0, 30'000), "null");
  EXPECT_EQ(java().Do("1", "expirable.tryRelease", "slots", javas), "true");
  EXPECT_EQ(slots.AvailablePermits().value_or(-1), 1);
  EXPECT_TRUE(one.Release().ok());
  EXPECT_EQ(JavaAvailable(), "2");
  EXPECT_EQ(java().Do("1", "expirable.getPermits", "slots"), "2");
}

TEST_F(RedissonPermitExpirableSemaphore, RenewalsKeepPermitFromJava) {
  auto both =
      Must(redisson::PermitExpirableSemaphore(client(), "slots", {.lease = absl::Milliseconds(600)})
               .Acquire(2));
  EXPECT_EQ(java().Do("1", "expirable.tryAcquire", "slots", 1500, 30'000), "null");
  EXPECT_TRUE(both.valid());
  EXPECT_TRUE(both.Release().ok());
}

TEST_F(RedissonPermitExpirableSemaphore, JavaPermitExpires) {
  const std::string javas = java().Do("1", "expirable.tryAcquire", "slots", 0, 600);
  ASSERT_THAT(javas, Not(AnyOf(StartsWith("error"), "null")));
  redisson::PermitExpirableSemaphore slots(client(), "slots");
  EXPECT_TRUE(IsBusy(slots.TryAcquire(2).status()));
  const absl::Duration took =
      TimeOf([&] { const auto both = Must(slots.Acquire(2, {.wait = kLong})); });
  EXPECT_LT(took, kSoon);
  EXPECT_EQ(java().Do("1", "expirable.tryRelease", "slots", javas), "false");
}

TEST_F(RedissonPermitExpirableSemaphore, PermitOfKilledHolderExpiresForJava) {
  const auto child = support::SpawnChild("PermitHolder", {server().url(), "expirable"});
  ASSERT_EQ(child->pipe().ReadLine(), "acquired");
  ASSERT_THAT(java().Do("1", "expirable.tryAcquire", "slots", 0, 30'000), Not("null"));
  EXPECT_EQ(java().Do("1", "expirable.tryAcquire", "slots", 0, 30'000), "null");
  child->Kill();
  EXPECT_THAT(java().Do("1", "expirable.tryAcquire", "slots", 20'000, 30'000),
              Not(AnyOf(StartsWith("error"), "null")));
}

TEST_F(RedissonPermitExpirableSemaphore, ReleasesWakeWaitersOfBothLanguages) {
  redisson::PermitExpirableSemaphore slots(client(), "slots");
  const std::string javas = java().Do("1", "expirable.tryAcquire", "slots", 0, 30'000);
  auto one = Must(slots.Acquire());
  auto waiter = InThread([&slots] { return slots.Acquire(1, {.wait = kLong}); });
  ASSERT_TRUE(AwaitWaiters(server(), "semaphore", "slots", 1));
  const absl::Duration took = TimeOf([&] {
    EXPECT_EQ(java().Do("1", "expirable.tryRelease", "slots", javas), "true");
    const auto another = Must(waiter.get());
  });
  EXPECT_LT(took, kSoon);
  // `another` has been released.
  ASSERT_THAT(java().Do("1", "expirable.tryAcquire", "slots", 10'000, 30'000), Not("null"));
  const PendingReply java_waiter = java().Send("2", "expirable.acquire", "slots");
  ASSERT_TRUE(AwaitWaiters(server(), "semaphore", "slots", 1));
  EXPECT_TRUE(one.Release().ok());
  EXPECT_TRUE(java_waiter.Get(kSoon).ok) << java_waiter.Get().value;
}

TEST_F(RedissonPermitExpirableSemaphore, SetPermitsCountsForBothLanguages) {
  redisson::PermitExpirableSemaphore slots(client(), "slots");
  EXPECT_TRUE(slots.SetPermits(5).ok());
  EXPECT_EQ(java().Do("1", "expirable.getPermits", "slots"), "5");
  EXPECT_EQ(java().Do("1", "expirable.setPermits", "slots", 1), "");
  EXPECT_EQ(slots.AvailablePermits().value_or(-1), 1);
}

}  // namespace
}  // namespace redlatch
