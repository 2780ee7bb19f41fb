// Locks on a cluster, as one client sees it; the conformance suite runs there too.
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"
#include "tests/support/subprocess.h"

namespace redlatch {
namespace {

using support::Await;
using support::ClusterGroup;
using ::testing::HasSubstr;

constexpr absl::Duration kClusterPatience = absl::Seconds(10);

class ClusterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { group_ = ClusterGroup::Start().release(); }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  // One client holds the lock, the other waits, and is told of the release that comes after
  // `meanwhile`.
  void HandOver(const std::string& name, const std::function<void()>& meanwhile) {
    SCOPED_TRACE(name);
    SimpleLock lock(client_, name, {.lease = absl::Minutes(5)});
    SimpleLock others(other_, name, {.lease = absl::Minutes(5)});
    absl::StatusOr<Lease> lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    absl::StatusOr<Lease> taken;
    std::thread waiter([&] { taken = others.Acquire({.wait = kClusterPatience}); });
    const std::string queue = absl::StrCat("redlatch:2:{", name, "}:simple.queue");
    EXPECT_TRUE(Await([&] { return group_->CommandAt(name, {"ZCARD", queue}).integer == 1; }));
    meanwhile();
    const base::Instant released = base::Now();
    const absl::Status status = lease->Release();
    EXPECT_TRUE(status.ok()) << status;
    waiter.join();
    EXPECT_TRUE(taken.ok()) << taken.status();
    EXPECT_LE(base::Now() - released, absl::Seconds(1));  // its heartbeat comes each 10 s
  }

  static ClusterGroup* group_;
  const Client client_ = *Client::Connect(group_->url());
  const Client other_ = *Client::Connect(group_->url());
};

ClusterGroup* ClusterTest::group_ = nullptr;

TEST_F(ClusterTest, LocksLieAtAllPrimariesAndExclude) {
  for (int i = 0; i < 60; ++i) {
    const std::string name = absl::StrCat("lock:", i);
    SimpleLock lock(client_, name);
    SimpleLock others(other_, name);
    absl::StatusOr<Lease> lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(group_->CommandAt(name, {"EXISTS", name}).integer, 1);
    EXPECT_EQ(others.TryAcquire().status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(lease->Release().ok());
    EXPECT_TRUE(others.TryAcquire().ok());
  }
  for (size_t i = 0; i < group_->servers(); ++i) {
    EXPECT_GT(group_->server(i).Integer({"DBSIZE"}), 0) << i;
  }
}

TEST_F(ClusterTest, AWaiterIsToldByMessage) {
  for (int i = 0; i < 20; ++i) HandOver(absl::StrCat("waited:", i), [] {});
}

TEST_F(ClusterTest, InspectNamesTheProcesses) {
  SimpleLock lock(client_, "seen");
  absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  const absl::StatusOr<LockInfo> info = lock.Inspect();
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_EQ(info->holders.size(), 1);
}

TEST_F(ClusterTest, AForkedChildIsRefusedAndDestroysWhatItHas) {
  auto client = std::make_unique<Client>(*Client::Connect(group_->url()));
  auto lock = std::make_unique<SimpleLock>(*client, "forked");
  absl::StatusOr<Lease> lease = lock->Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  auto child = support::Child::Fork([&](support::LinePipe&) {
    const bool refused =
        lock->TryAcquire().status().code() == absl::StatusCode::kFailedPrecondition;
    lease = absl::CancelledError("");
    lock.reset();
    client.reset();
    return refused ? 0 : 1;
  });
  const auto status = child->WaitFor(kClusterPatience);
  ASSERT_TRUE(status.has_value()) << "it hangs";
  EXPECT_EQ(status->signal, 0);
  EXPECT_EQ(status->code, 0);
  EXPECT_TRUE(lease->Release().ok());
}

TEST_F(ClusterTest, ReplicaAcksAreOfTheNodeThatHasTheLock) {
  for (int i = 0; i < 6; ++i) {
    SimpleLock lock(client_, absl::StrCat("acked:", i),
                    {.replica_acks = 1, .ack_timeout = absl::Milliseconds(100)});
    const absl::Status none = lock.TryAcquire().status();
    EXPECT_THAT(std::string(none.message()), HasSubstr("0 of 1 replica has confirmed")) << none;
  }
}

TEST_F(ClusterTest, AnEndedClientLeavesNoKeys) {
  {
    const Client client = *Client::Connect(group_->url());
    for (int i = 0; i < 6; ++i) {
      SimpleLock lock(client, absl::StrCat("ends:", i),
                      {.replica_acks = 1, .ack_timeout = absl::Milliseconds(10)});
      EXPECT_EQ(lock.TryAcquire().status().code(), absl::StatusCode::kUnavailable);
    }
  }
  const auto marks = [&] {
    size_t count = 0;
    for (size_t i = 0; i < group_->servers(); ++i) {
      count += group_->server(i).Do({"KEYS", "redlatch:client:{*"}).elements.size();
    }
    return count;
  };
  EXPECT_TRUE(support::Await([&] { return marks() == 0; })) << marks();
}

TEST_F(ClusterTest, AnyNodeWillDoToBeginWith) {
  for (size_t i = 0; i < group_->servers(); ++i) {
    const auto client = Client::Connect(
        absl::StrCat("redis-cluster://127.0.0.1:1,127.0.0.1:", group_->server(i).port()));
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE(SimpleLock(*client, "any").TryAcquire().ok());
  }
}

TEST_F(ClusterTest, ErrorsSayWhatToDo) {
  const absl::Status single =
      Client::Connect(absl::StrCat("redis://127.0.0.1:", group_->server(0).port())).status();
  EXPECT_EQ(single.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(single.message()), HasSubstr("redis-cluster://"));
  const auto standalone = support::RedisServer::Start();
  const absl::Status none =
      Client::Connect(absl::StrCat("redis-cluster://127.0.0.1:", standalone->port())).status();
  EXPECT_THAT(std::string(none.message()), HasSubstr("cluster support disabled")) << none;
}

}  // namespace
}  // namespace redlatch
