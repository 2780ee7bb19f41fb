// Every public call in a forked child, on objects of its parent.
#include "redlatch/redisson/count_down_latch.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/permit_expirable_semaphore.h"
#include "redlatch/redisson/read_write_lock.h"
#include "redlatch/redisson/semaphore.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

template <class Its>
absl::Status StatusOf(const absl::StatusOr<Its>& result) {
  return result.status();
}
absl::Status StatusOf(const absl::Status& status) { return status; }

struct ForkedCalls : ::testing::Test {
  // The call must be refused in a forked child, and not end it.
  template <class Call>
  void ExpectRefused(const char* name, Call call) {
    const int code = support::CodeOfFork([&] {
      const absl::Status status = StatusOf(call());
      const bool refused =
          absl::IsFailedPrecondition(status) &&
          status.message().find("connect again after fork()") != std::string_view::npos;
      if (!refused) std::fprintf(stderr, "%s: %s\n", name, status.ToString().c_str());
      return refused ? 0 : 1;
    });
    EXPECT_EQ(code, 0) << name;
  }

  void ExpectLockRefused(const char* name, RedisLockBase& lock) {
    SCOPED_TRACE(name);
    ExpectRefused("Acquire", [&] { return lock.Acquire(); });
    ExpectRefused("TryAcquire", [&] { return lock.TryAcquire(); });
    ExpectRefused("Inspect", [&] { return lock.Inspect(); });
    ExpectRefused("ForceRelease", [&] { return lock.ForceRelease(); });
  }
  template <class Held>
  void ExpectHoldRefused(const char* name, Held held) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(held.ok()) << held.status();
    ExpectRefused("Release", [&] { return held->Release(); });
    ExpectRefused("Extend", [&] { return held->Extend(absl::Seconds(5)); });
    EXPECT_TRUE(held->Release().ok());
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url());
};

TEST_F(ForkedCalls, OfClientAreRefused) {
  ExpectRefused("Ping", [&] { return client_.Ping(); });
}

TEST_F(ForkedCalls, OfLocksAreRefused) {
  QuorumGroup group(3);
  const Client quorum = Connect(group.url());
  const auto node = support::StartClusterOfOne();
  SimpleLock in_cluster(Connect("redis-cluster" + node->url().substr(5)), "in_cluster");
  SimpleLock simple(client_, "simple");
  ReentrantLock reentrant(client_, "reentrant");
  ReentrantReadWriteLock read_write(client_, "read_write");
  MultiLock multi(client_, {"a", "b"});
  MultiLock of_locks({&simple, &reentrant});
  RedLock red(quorum, "red");
  redisson::Lock lock(client_, "lock");
  redisson::FairLock fair(client_, "fair");
  redisson::ReadWriteLock its_read_write(client_, "its_read_write");
  const std::pair<const char*, RedisLockBase*> all[] = {
      {"SimpleLock", &simple},
      {"ReentrantLock", &reentrant},
      {"ReadWriteLock", &read_write},
      {"MultiLock", &multi},
      {"MultiLock of locks", &of_locks},
      {"RedLock", &red},
      {"SimpleLock in a cluster", &in_cluster},
      {"redisson::Lock", &lock},
      {"redisson::FairLock", &fair},
      {"redisson::ReadWriteLock", &its_read_write}};
  for (const auto& [name, its] : all) ExpectLockRefused(name, *its);
  ExpectRefused("AcquireRead", [&] { return read_write.AcquireRead(); });
  ExpectRefused("AcquireWrite", [&] { return read_write.AcquireWrite(); });
  ExpectRefused("AcquireAs", [&] { return reentrant.AcquireAs(Owner("owner")); });
  for (const auto& [name, its] : all) ExpectHoldRefused(name, its->Acquire());
  ExpectHoldRefused("read", read_write.AcquireRead());
  ExpectHoldRefused("redisson's read", its_read_write.AcquireRead());
  auto lease = Must(simple.Acquire());
  ExpectRefused("StayTaken", [&] { return lease.StayTaken(absl::Seconds(1)); });
}

TEST_F(ForkedCalls, OfSemaphoresAreRefused) {
  Semaphore semaphore(client_, "semaphore", 2);
  redisson::Semaphore permits(client_, "permits");
  redisson::PermitExpirableSemaphore expirable(client_, "expirable");
  ExpectRefused("SetCapacity", [&] { return semaphore.SetCapacity(3); });
  ExpectRefused("Inspect", [&] { return semaphore.Inspect(); });
  ExpectRefused("ForceRelease", [&] { return semaphore.ForceRelease(); });
  const auto refused = [&](const char* name, auto& its) {
    SCOPED_TRACE(name);
    ExpectRefused("Acquire", [&] { return its.Acquire(); });
    ExpectRefused("TryAcquire", [&] { return its.TryAcquire(); });
    ExpectHoldRefused("Permit", its.Acquire());
  };
  for (auto* const each : {&permits, static_cast<redisson::Semaphore*>(&expirable)}) {
    ExpectRefused("TrySetPermits", [&] { return each->TrySetPermits(2); });
    ExpectRefused("AddPermits", [&] { return each->AddPermits(1); });
    ExpectRefused("AvailablePermits", [&] { return each->AvailablePermits(); });
    EXPECT_TRUE(each->TrySetPermits(2).ok());
  }
  ExpectRefused("SetPermits", [&] { return expirable.SetPermits(3); });
  refused("Semaphore", semaphore);
  refused("redisson::PermitExpirableSemaphore", expirable);
  ExpectRefused("redisson::Semaphore", [&] { return permits.Acquire(); });
  ExpectRefused("redisson::Semaphore", [&] { return permits.TryAcquire(); });
  auto held = Must(permits.Acquire());
  ExpectRefused("redisson::Semaphore's permit", [&] { return held.Release(); });
  EXPECT_TRUE(held.Release().ok());
}

TEST_F(ForkedCalls, OfLatchesAreRefused) {
  CountDownLatch latch(client_, "latch", 2);
  redisson::CountDownLatch its(client_, "its");
  EXPECT_TRUE(its.TrySetCount(2).ok());
  ExpectRefused("Wait", [&] { return latch.Wait(); });
  ExpectRefused("CountDown", [&] { return latch.CountDown(); });
  ExpectRefused("Count", [&] { return latch.Count(); });
  ExpectRefused("redisson TrySetCount", [&] { return its.TrySetCount(2); });
  ExpectRefused("redisson Wait", [&] { return its.Wait(); });
  ExpectRefused("redisson CountDown", [&] { return its.CountDown(); });
  ExpectRefused("redisson Count", [&] { return its.Count(); });
}

TEST_F(ForkedCalls, OfElectionsAreRefused) {
  Election election(client_, "election");
  const auto refused = [&] {
    ExpectRefused("Campaign", [&] { return election.Campaign("a"); });
    ExpectRefused("Leader", [&] { return election.Leader(); });
    ExpectRefused("Observe", [&] { return election.Observe([](const auto&) {}); });
    ExpectRefused("RunElected", [&] {
      const auto work = [](std::stop_token, FencingToken) { return absl::OkStatus(); };
      return RunElected(election, work, std::stop_token());
    });
  };
  refused();
  auto leads = Must(election.Campaign("a"));
  refused();
  ExpectRefused("Proclaim", [&] { return leads.Proclaim("b"); });
  ExpectRefused("Resign", [&] { return leads.Resign(); });
  ExpectRefused("Extend", [&] { return leads.Extend(absl::Seconds(5)); });
  EXPECT_TRUE(leads.Proclaim("c").ok());
}

}  // namespace
}  // namespace redlatch
