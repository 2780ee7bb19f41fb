// Processes that die, and replies that are lost.
#include "tests/redisson/redisson_testing.h"

namespace redlatch {
namespace {

class RedissonCrash : public RedissonTest {};

// It is killed while it holds a lock of each kind, whose name is that of its kind.
REDLATCH_CHILD(RedissonHolder) {
  const Client client = Connect(args.at(0));
  std::vector<absl::StatusOr<Lease>> leases;
  for (const LockKind& kind : LockKinds()) {
    const auto lock = kind.make(client, kind.java, {.lease = absl::Seconds(1)});
    leases.push_back(lock->Acquire());
    EXPECT_TRUE(leases.back().ok()) << leases.back().status();
  }
  parent.WriteLine("holds");
  parent.ReadLine(absl::Minutes(1));
  return 0;
}

TEST_F(RedissonCrash, KilledProcessFreesItsLocksForJava) {
  const auto child = support::SpawnChild("RedissonHolder", {server().url()});
  ASSERT_EQ(child->pipe().ReadLine(), "holds");
  // It renews them.
  EXPECT_EQ(java().Do("1", "tryLock", "lock", "lock", 1500, -1), "false");
  std::vector<PendingReply> waiters;
  for (const LockKind& kind : LockKinds()) {
    waiters.push_back(java().Send(kind.java, "lock", kind.java, kind.java));
    ASSERT_TRUE(AwaitWaiters(server(), kind.java, kind.java, 1));
    EXPECT_FALSE(waiters.back().done());
  }
  child->Kill();
  for (const PendingReply& waiter : waiters) {
    EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
  }
}

TEST_F(RedissonCrash, KilledJvmFreesItsLocks) {
  JavaPeer mortal;
  JavaClient other(mortal, server().url(), {.watchdog = absl::Seconds(1)});
  std::vector<std::unique_ptr<RedisLockBase>> locks;
  std::vector<std::future<absl::StatusOr<Lease>>> waiters;
  for (const LockKind& kind : LockKinds()) {
    ASSERT_EQ(other.Do("1", "lock", kind.java, kind.java), "");
    locks.push_back(kind.make(client(), kind.java, {}));
    waiters.push_back(AcquireInThread(*locks.back()));
    ASSERT_TRUE(AwaitWaiters(server(), kind.java, kind.java, 1));
  }
  // The watchdog has renewed them.
  EXPECT_TRUE(IsBusy(locks[0]->Acquire({.wait = absl::Milliseconds(1500)}).status()));
  mortal.Kill();
  const absl::Duration took = TimeOf([&] {
    for (auto& waiter : waiters) {
      const auto lease = Must(waiter.get());
    }
  });
  EXPECT_LT(took, kSoon);
}

// The C++ client reaches the server through a proxy, which loses replies.
class RedissonLostReply : public RedissonKindTest {
 protected:
  void Start() override {
    RedissonKindTest::Start();
    proxy_ = std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = server().port()});
    unlucky_ = std::make_unique<Client>(Connect(proxy_->url() + "?command_timeout=200ms"));
  }
  TcpProxy& proxy() { return *proxy_; }
  const Client& unlucky() { return *unlucky_; }

 private:
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<Client> unlucky_;
};
REDLATCH_FOR_EACH_REDISSON_LOCK(RedissonLostReply);

TEST_P(RedissonLostReply, RepeatedAcquireCountsOnce) {
  const auto lock = GetParam().make(unlucky(), "orders", {});
  proxy().DropReplies(1);
  auto lease = Must(lock->Acquire({.wait = kLong}));
  EXPECT_GT(proxy().stats().bytes_dropped, 0);
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 0, -1), "false");
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_EQ(server().Integer({"EXISTS", "orders"}), 0);
  EXPECT_EQ(java().Do("1", "tryLock", kind(), "orders", 0, -1), "true");
}

TEST_P(RedissonLostReply, RepeatedReleaseLeavesJavaItsLock) {
  const auto lock = GetParam().make(unlucky(), "orders", {});
  auto lease = Must(lock->Acquire({.wait = kLong}));
  const PendingReply waiter = java().Send("1", "lock", kind(), "orders");
  ASSERT_TRUE(AwaitWaiters(server(), kind(), "orders", 1));
  proxy().DropReplies(1);
  EXPECT_TRUE(ReleaseForSure(lease).ok());
  EXPECT_GT(proxy().stats().bytes_dropped, 0);
  EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
  EXPECT_EQ(java().Do("1", "isHeld", kind(), "orders"), "true");
}

class RedissonLostReplies : public RedissonLostReply {};
INSTANTIATE_TEST_SUITE_P(Only, RedissonLostReplies, ::testing::Values(LockKind{"none", nullptr}),
                         [](const auto& its) { return std::string(its.param.java); });

TEST_P(RedissonLostReplies, RepeatedReadCountsOnce) {
  ASSERT_EQ(java().Do("1", "lock", "read", "prices"), "");
  proxy().DropReplies(1);
  auto reads = Must(redisson::ReadWriteLock(unlucky(), "prices").AcquireRead({.wait = kLong}));
  proxy().DropReplies(1);
  EXPECT_TRUE(ReleaseForSure(reads).ok());
  EXPECT_EQ(java().Do("2", "tryLock", "write", "prices", 0, -1), "false");
  EXPECT_EQ(java().Do("1", "unlock", "read", "prices"), "");
  EXPECT_EQ(java().Do("2", "tryLock", "write", "prices", 0, -1), "true");
}

TEST_P(RedissonLostReplies, RepeatedPermitCountsOnce) {
  const auto once = [&](redisson::Semaphore& slots, const std::string& kind) {
    SCOPED_TRACE(kind);
    const auto available = [&] { return java().Do("1", kind + ".availablePermits", slots.name()); };
    ASSERT_EQ(java().Do("1", kind + ".trySetPermits", slots.name(), 5), "true");
    proxy().DropReplies(1);
    auto two = Must(slots.Acquire(2, {.wait = kLong}));
    EXPECT_EQ(available(), "3");
    proxy().DropReplies(1);
    EXPECT_TRUE(ReleaseForSure(two).ok());
    EXPECT_EQ(available(), "5");
  };
  redisson::Semaphore slots(unlucky(), "slots");
  redisson::PermitExpirableSemaphore expirable(unlucky(), "expirable");
  once(slots, "semaphore");
  once(expirable, "expirable");
}

TEST_P(RedissonLostReplies, RepeatedCountCountsOnce) {
  ASSERT_EQ(java().Do("1", "latch.trySetCount", "import", 3), "true");
  proxy().DropReplies(1);
  EXPECT_TRUE(redisson::CountDownLatch(unlucky(), "import").CountDown().ok());
  EXPECT_GT(proxy().stats().bytes_dropped, 0);
  EXPECT_EQ(java().Do("1", "latch.getCount", "import"), "2");
}

}  // namespace
}  // namespace redlatch
