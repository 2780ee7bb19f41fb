// A kept lock, and what becomes of it when a connection, a process or the server fails.
#include <exception>
#include <memory>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/connect.h"
#include "tests/support/redis_server.h"
#include "tests/support/subprocess.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using support::TimeOf;

template <class Lock>
void TakeAndLeave(Lock& lock) {
  lock.lock();
  lock.unlock();
}

class KeepFaults : public ::testing::Test {
 protected:
  bool IsFree() { return server_->Integer({"EXISTS", "lock"}) == 0; }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  Client other_ = Connect(server_->url());
};

// The client's command connection is made anew, and its subscription hears nothing.
TEST_F(KeepFaults, HalfOpenSubscriptionKeepsOthersOutForAThirdOfTheLease) {
  support::TcpProxy proxy({.port = server_->port()});
  const Client client = Connect(proxy.url() + "?command_timeout=200ms");
  const absl::Duration lease = absl::Seconds(9);
  SimpleLock lock(client, "lock", {.lease = lease, .keep = lease});
  SimpleLock theirs(other_, "lock");
  TakeAndLeave(lock);
  proxy.Drop(support::Direction::kToClient, support::Scope::kExisting);
  ASSERT_TRUE(Await([&] { return client.Ping().ok(); }));
  ASSERT_FALSE(IsFree());
  EXPECT_LT(TimeOf([&] { theirs.lock(); }), lease / 3 + absl::Seconds(2));
  theirs.unlock();
}

TEST_F(KeepFaults, ForkedChildLeavesAnIdleLockAlone) {
  const Client client = Connect(server_->url());
  auto lock = std::make_unique<SimpleLock>(client, "lock", LockOptions{.keep = absl::Seconds(20)});
  TakeAndLeave(*lock);
  const auto child = support::Child::Fork([&](support::LinePipe&) {
    EXPECT_THROW(lock->lock(), std::exception);
    EXPECT_THROW(lock->try_lock(), std::exception);
    EXPECT_FALSE(lock->Acquire().ok());
    lock.reset();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  const auto status = child->WaitFor(absl::Seconds(10));
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(status->success());
  EXPECT_FALSE(IsFree());
  TakeAndLeave(*lock);
  lock.reset();
  EXPECT_TRUE(Await([&] { return IsFree(); }));
}

REDLATCH_CHILD(Keeper) {
  const Client client = Connect(args.at(0));
  const absl::Duration lease = absl::Seconds(2);
  SimpleLock lock(client, "lock", {.lease = lease, .keep = lease});
  TakeAndLeave(lock);
  parent.WriteLine("idle");
  parent.ReadLine(absl::Minutes(1));
  return 0;
}

TEST_F(KeepFaults, CrashOfAKeeperCostsOthersItsLeaseAtMost) {
  const auto keeper = support::SpawnChild("Keeper", {server_->url()});
  ASSERT_EQ(keeper->pipe().ReadLine(), "idle");
  keeper->Kill();
  EXPECT_FALSE(IsFree());
  SimpleLock theirs(other_, "lock");
  EXPECT_LT(TimeOf([&] { theirs.lock(); }), absl::Seconds(3));
  theirs.unlock();
}

}  // namespace
}  // namespace redlatch
