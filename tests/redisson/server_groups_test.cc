// Redisson and redlatch behind Sentinel, and in a cluster.
#include "tests/redisson/redisson_testing.h"

namespace redlatch {
namespace {

struct RedissonServerGroup : RedissonTest {
  void Start() override {}

  // Each side has each kind of lock once, while the other cannot get it.
  static void ExpectExclusion(JavaClient& java, const Client& client, const std::string& name) {
    for (const LockKind& kind : LockKinds()) {
      SCOPED_TRACE(kind.java);
      const std::string its = absl::StrCat(name, ":", kind.java);
      const auto lock = kind.make(client, its, {});
      auto lease = Must(lock->Acquire({.wait = kLong}));
      EXPECT_EQ(java.Do("1", "tryLock", kind.java, its, 0, -1), "false");
      EXPECT_TRUE(lease.Release().ok());
      EXPECT_EQ(java.Do("1", "tryLock", kind.java, its, 10'000, -1), "true");
      EXPECT_TRUE(IsBusy(lock->TryAcquire().status()));
      EXPECT_EQ(java.Do("1", "unlock", kind.java, its), "");
    }
  }
};

TEST_F(RedissonServerGroup, BothLanguagesLockAgainAfterFailover) {
  const auto group = support::SentinelGroup::Start();
  const Client client = Connect(group->url());
  JavaClient java(SharedJvm(), group->url());
  ExpectExclusion(java, client, "before");
  const size_t old = group->Primary().value();
  group->server(old).Kill();
  group->AwaitPrimaryOtherThan(old);
  // Until each side has found the new primary, its calls may fail.
  redisson::Lock lock(client, "first");
  EXPECT_TRUE(Await([&] { return lock.Acquire({.wait = kSoon}).ok(); }, kLong));
  EXPECT_TRUE(Await([&] { return java.Do("1", "tryLock", "lock", "second", 0, 1000) == "true"; },
                    absl::Seconds(60)));
  ExpectExclusion(java, client, "after");
}

TEST_F(RedissonServerGroup, ClusterWakesWaitersOfBothLanguages) {
  const auto group = support::ClusterGroup::Start();
  const Client client = Connect(group->url());
  JavaClient java(SharedJvm(), group->url());
  ExpectExclusion(java, client, "orders");
  for (size_t node = 0; node < group->servers(); ++node) {
    const std::string name = group->NameAt(node, "woken");
    SCOPED_TRACE(name);
    const auto waits = [&] {
      return Await([&] {
        const redis::Reply reply =
            group->server(node).Do({"PUBSUB", "SHARDNUMSUB", RedissonChannel("lock", name)});
        return reply.elements.at(1).integer == 1;
      });
    };
    redisson::Lock lock(client, name);
    ASSERT_EQ(java.Do("1", "lock", "lock", name), "");
    auto waiter = AcquireInThread(lock);
    ASSERT_TRUE(waits());
    absl::StatusOr<Lease> lease;
    const absl::Duration took = TimeOf([&] {
      EXPECT_EQ(java.Do("1", "unlock", "lock", name), "");
      lease = waiter.get();
    });
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_LT(took, kSoon);

    ASSERT_TRUE(Await([&] {
      return group->server(node)
                 .Do({"PUBSUB", "SHARDNUMSUB", RedissonChannel("lock", name)})
                 .elements.at(1)
                 .integer == 0;
    }));
    const PendingReply java_waiter = java.Send("1", "lock", "lock", name);
    ASSERT_TRUE(waits());
    EXPECT_TRUE(lease->Release().ok());
    EXPECT_TRUE(java_waiter.Get(kSoon).ok) << java_waiter.Get().value;
    EXPECT_EQ(java.Do("1", "unlock", "lock", name), "");
  }
}

}  // namespace
}  // namespace redlatch
