#include "redlatch/red_lock.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/run_locked.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/quorum_group.h"

namespace redlatch {
namespace {

using support::Await;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr char kRedLockName[] = "orders:42";

class RedLockTest : public ::testing::Test {
 protected:
  Client Connect(const std::string& options = {}) {
    absl::StatusOr<Client> client = Client::Connect(servers_.url(options));
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  support::QuorumGroup servers_;
};

TEST_F(RedLockTest, ExcludesAndHandsOver) {
  const Client one = Connect();
  const Client other = Connect();
  RedLock mine(one, kRedLockName);
  RedLock theirs(other, kRedLockName);
  absl::StatusOr<Lease> lease = mine.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(theirs.TryAcquire().status()));
  FencingToken second;
  std::thread waiter([&] {
    absl::StatusOr<Lease> next = theirs.Acquire({.wait = absl::Seconds(5)});
    ASSERT_TRUE(next.ok()) << next.status();
    second = next->fencing_token();
  });
  EXPECT_TRUE(Await([&] {
    const absl::StatusOr<LockInfo> info = mine.Inspect();
    return info.ok() && info->waiting == 1;
  }));
  const base::Instant released = base::Now();
  EXPECT_TRUE(lease->Release().ok());
  waiter.join();
  EXPECT_LT(base::Now() - released, absl::Milliseconds(500));
  EXPECT_LT(lease->fencing_token(), second);
}

TEST_F(RedLockTest, GoesOnWithTwoServersHanging) {
  const Client client = Connect();
  RedLock lock(client, kRedLockName);
  lock.lock();
  lock.unlock();
  servers_[0].Stop();
  servers_[3].Stop();
  const base::Instant began = base::Now();
  for (int i = 0; i < 20; ++i) {
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_TRUE(lease->Release().ok());
  }
  EXPECT_LT(base::Now() - began, absl::Seconds(1));
  servers_[0].Continue();
  servers_[3].Continue();
  EXPECT_TRUE(Await([&] { return servers_.Having(kRedLockName) == 0; }));
}

TEST_F(RedLockTest, SaysWhoDoesNotAnswer) {
  const Client client = Connect("command_timeout=300ms");
  RedLock lock(client, kRedLockName);
  lock.lock();
  lock.unlock();
  for (const size_t i : {0, 1, 2}) servers_[i].Kill();
  const absl::StatusOr<Lease> lease = lock.TryAcquire();
  EXPECT_TRUE(absl::IsUnavailable(lease.status())) << lease.status();
  // The second of those that live need not have answered yet.
  EXPECT_THAT(std::string(lease.status().message()),
              ContainsRegex("[12] of 5 servers answered, and 3 are needed"));
  EXPECT_THAT(std::string(lease.status().message()), HasSubstr(servers_[1].url()));
}

TEST_F(RedLockTest, ManyThreadsOfManyClientsTakeTurns) {
  constexpr int kClients = 4;
  constexpr int kThreads = 2;
  constexpr int kTurns = 50;
  std::atomic<int> inside{0};
  std::atomic<int> done{0};
  std::atomic<uint64_t> last{0};
  std::vector<Client> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(Connect());
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients * kThreads; ++i) {
    threads.emplace_back([&, i] {
      RedLock lock(clients[static_cast<size_t>(i % kClients)], kRedLockName);
      for (int turn = 0; turn < kTurns; ++turn) {
        absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(30)});
        ASSERT_TRUE(lease.ok()) << lease.status();
        EXPECT_EQ(++inside, 1);
        EXPECT_LT(last.exchange(lease->fencing_token().value()), lease->fencing_token().value());
        --inside;
        ++done;
        ASSERT_TRUE(lease->Release().ok());
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(done, kClients * kThreads * kTurns);
}

TEST_F(RedLockTest, OfSeveralClientsIsOfOneQuorum) {
  std::vector<Client> clients;
  for (size_t i = 0; i < servers_.size(); ++i) {
    absl::StatusOr<Client> client = Client::Connect(servers_[i].url());
    ASSERT_TRUE(client.ok());
    clients.push_back(*std::move(client));
  }
  RedLock lock(clients, kRedLockName);
  const std::scoped_lock guard(lock);
  EXPECT_TRUE(lock.current().valid());
  RedLock same(clients, kRedLockName);
  EXPECT_TRUE(same.current().valid());  // of the same client: this thread's
  RedLock apart(Connect(), kRedLockName);
  EXPECT_FALSE(apart.try_lock());
}

TEST_F(RedLockTest, LeaseLongerThanTheRestartDelayIsRefused) {
  RedLock lock(Connect("restart_delay=2200ms"), kRedLockName, {.lease = absl::Seconds(3)});
  EXPECT_TRUE(absl::IsInvalidArgument(lock.TryAcquire().status()));
}

TEST_F(RedLockTest, ItsClientIsForNoOtherLock) {
  SimpleLock lock(Connect(), kRedLockName);
  const absl::StatusOr<Lease> lease = lock.TryAcquire();
  EXPECT_TRUE(absl::IsFailedPrecondition(lease.status()));
  EXPECT_THAT(std::string(lease.status().message()), HasSubstr("RedLock"));
}

}  // namespace
}  // namespace redlatch
