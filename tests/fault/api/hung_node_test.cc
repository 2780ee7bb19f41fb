// One of several nodes hangs: leases at the others are held and renewed as before.
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/red_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/redis/deployment/cluster.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/slot.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"
#include "tests/support/outcomes.h"
#include "tests/support/quorum_group.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using support::ClusterGroup;

// The bar is a minute, with leases of 0.5 to 30 s. A busy machine is given less to keep.
std::vector<absl::Duration> LeaseLengths() {
  if (!support::FullBars()) return {absl::Seconds(4), absl::Seconds(15)};
  std::vector<absl::Duration> leases;
  for (const double seconds : {0.5, 1.0, 2.0, 5.0, 10.0, 30.0}) {
    leases.push_back(absl::Seconds(seconds));
  }
  return leases;
}
absl::Duration HangFor() { return absl::Seconds(support::FullBars() ? 60 : 8); }

// A lease that the client renews, and the lock that it is of.
template <class Lock>
struct Held {
  Held(const Client& client, const std::string& name, LockOptions options)
      : lock(std::make_unique<Lock>(client, name, options)), lease(lock->Acquire()) {}
  std::unique_ptr<Lock> lock;
  absl::StatusOr<Lease> lease;
};

class HungClusterNode : public ::testing::Test {
 protected:
  // The other nodes go on without the hung one.
  static void SetUpTestSuite() {
    group_ = ClusterGroup::Start({.replicas = 1,
                                  .node_timeout = absl::Minutes(5),
                                  .server = {.config = {"cluster-require-full-coverage no"}}})
                 .release();
  }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  // A name whose lock is at that primary.
  std::string NameAt(size_t primary) {
    for (;;) {
      std::string name = absl::StrCat("lock:", ++number_);
      if (group_->OwnerOf(redis::SlotOf(name)) == primary) return name;
    }
  }
  void Hold(const Client& client, size_t primary, LockOptions options) {
    std::vector<Held<SimpleLock>>& held = primary == 0 ? at_hung_ : elsewhere_;
    held.emplace_back(client, NameAt(primary), std::move(options));
    ASSERT_TRUE(held.back().lease.ok()) << held.back().lease.status();
  }
  // Returns how many leases at healthy nodes were lost within that time.
  size_t LostWithin(absl::Duration time) {
    group_->server(0).Stop();
    base::Parker().ParkUntil(base::Now() + time);
    size_t lost = 0;
    for (const auto& held : elsewhere_) lost += held.lease->valid() ? 0U : 1U;
    group_->server(0).Continue();
    return lost;
  }

  int number_ = 0;
  std::vector<Held<SimpleLock>> at_hung_;
  std::vector<Held<SimpleLock>> elsewhere_;
  static ClusterGroup* group_;
};

ClusterGroup* HungClusterNode::group_ = nullptr;

TEST_F(HungClusterNode, DelaysNoRenewalElsewhere) {
  const auto client = Client::Connect(group_->url() + "?command_timeout=5s");
  ASSERT_TRUE(client.ok()) << client.status();
  Hold(*client, 0, {.lease = absl::Seconds(15)});
  for (const size_t node : {1, 2}) Hold(*client, node, {.lease = absl::Seconds(4)});
  // The first renewal of the one at the hung node is due after 5 s.
  EXPECT_EQ(LostWithin(absl::Seconds(11)), 0U);
}

TEST_F(HungClusterNode, DelaysNoAckedRenewalElsewhere) {
  const auto client = Client::Connect(group_->url() + "?command_timeout=5s");
  ASSERT_TRUE(client.ok()) << client.status();
  const auto options = [](absl::Duration lease) {
    return LockOptions{.lease = lease, .replica_acks = 1, .ack_timeout = absl::Seconds(1)};
  };
  Hold(*client, 0, options(absl::Seconds(15)));
  for (const size_t node : {1, 2}) Hold(*client, node, options(absl::Seconds(4)));
  EXPECT_EQ(LostWithin(absl::Seconds(11)), 0U);
}

// Counts are repeated every third of the latch's `ttl`.
TEST_F(HungClusterNode, DelaysNoRenewalElsewhereByRepeatedCounts) {
  const auto client = Client::Connect(group_->url() + "?command_timeout=5s");
  ASSERT_TRUE(client.ok()) << client.status();
  CountDownLatch latch(*client, NameAt(0), 2, {.ttl = absl::Seconds(6)});
  ASSERT_TRUE(latch.CountDown().ok());
  for (const size_t node : {1, 2}) Hold(*client, node, {.lease = absl::Seconds(4)});
  EXPECT_EQ(LostWithin(absl::Seconds(20)), 0U);
}

// No call waits for the answer to an unlock(), and other nodes answer all the time.
TEST_F(HungClusterNode, IsNoticedByAnUnansweredUnlock) {
  const auto client = Client::Connect(group_->url());
  ASSERT_TRUE(client.ok()) << client.status();
  SimpleLock here(*client, NameAt(0));
  SimpleLock elsewhere(*client, NameAt(1));
  for (int i = 0; i < 3; ++i) std::scoped_lock(here, elsewhere);
  const uint64_t before = client->Stats().breaks;
  here.lock();
  group_->server(0).Stop();
  here.unlock();
  EXPECT_TRUE(support::Await(
      [&] {
        const std::scoped_lock guard(elsewhere);
        return client->Stats().breaks > before;
      },
      absl::Seconds(20)));
  group_->server(0).Continue();
}

// More asynchronous requests at the node than may be in flight at a server.
TEST_F(HungClusterNode, DelaysNoAsynchronousRequestElsewhere) {
  constexpr int kRequests = 400;
  const auto client = Client::Connect(group_->url() + "?command_timeout=1m");
  ASSERT_TRUE(client.ok()) << client.status();
  SimpleLock here(*client, NameAt(0));
  SimpleLock elsewhere(*client, NameAt(1));
  for (SimpleLock* const lock : {&here, &elsewhere}) ASSERT_TRUE(lock->Acquire().ok());
  support::Outcomes<absl::StatusOr<Lease>> at_hung;
  support::Outcomes<absl::StatusOr<Lease>> granted;
  support::Outcomes<absl::Status> released;
  std::vector<std::unique_ptr<SimpleLock>> locks;
  for (int i = 0; i < kRequests; ++i) {
    locks.push_back(std::make_unique<SimpleLock>(*client, NameAt(0)));
    ASSERT_TRUE(locks.back()->Acquire().ok());
  }
  group_->server(0).Stop();
  for (const auto& lock : locks) {
    lock->AcquireAsync({.wait = absl::ZeroDuration()}, at_hung.Callback());
  }
  elsewhere.AcquireAsync({}, granted.Callback());
  EXPECT_TRUE(granted.Await(1, absl::Seconds(30)));
  if (granted.size() == 1) granted.Take()->ReleaseAsync(released.Callback());
  EXPECT_TRUE(released.Await(1, absl::Seconds(20)));
  EXPECT_EQ(at_hung.size(), 0);
  group_->server(0).Continue();
  EXPECT_TRUE(at_hung.Await(kRequests, absl::Minutes(1)));
}

// The names are not in one buffer: a message may name two servers, or be written during exit().
TEST_F(HungClusterNode, ServerNamesAreSeparateObjects) {
  const auto url = redis::ParseUrl(group_->url());
  ASSERT_TRUE(url.ok()) << url.status();
  redis::Cluster cluster(*url, {}, {});
  std::vector<std::string> warnings;
  ASSERT_TRUE(cluster.Connect(base::Now() + absl::Seconds(20), warnings).ok());
  const auto& one = cluster.server(NameAt(0));
  const auto& other = cluster.server(NameAt(1));
  EXPECT_NE(one, other);
}

TEST_F(HungClusterNode, LosesNoLeaseElsewhere) {
  const auto client = Client::Connect(group_->url());
  ASSERT_TRUE(client.ok()) << client.status();
  for (const absl::Duration lease : LeaseLengths()) {
    for (const size_t node : {0, 1, 2}) {
      for (int i = 0; i < 4; ++i) Hold(*client, node, {.lease = lease});
    }
  }
  EXPECT_EQ(LostWithin(HangFor()), 0U);
}

TEST(HungQuorumNode, LosesNoLease) {
  support::QuorumGroup group(3);
  const auto client = Client::Connect(group.url("command_timeout=5s"));
  ASSERT_TRUE(client.ok()) << client.status();
  std::vector<Held<RedLock>> held;
  for (const absl::Duration lease : LeaseLengths()) {
    for (int i = 0; i < 4; ++i) {
      held.emplace_back(*client, absl::StrCat("lock:", held.size()), LockOptions{.lease = lease});
      ASSERT_TRUE(held.back().lease.ok()) << held.back().lease.status();
    }
  }
  group[0].Stop();
  base::Parker().ParkUntil(base::Now() + HangFor());
  for (const auto& each : held) EXPECT_TRUE(each.lease->valid());
  group[0].Continue();
}

}  // namespace
}  // namespace redlatch
