// Primaries of a cluster that die or step down, one after the other, under threads that lock.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/redis/wire/slot.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"

namespace redlatch {
namespace {

using support::Await;
using support::ClusterGroup;

constexpr int kClients = 3;
constexpr int kNames = 6;
constexpr absl::Duration kClusterPatience = absl::Seconds(30);

std::string NameOf(int i) { return absl::StrCat("lock:", i); }

// What was granted under one name: tokens grow, whatever becomes of servers.
class Grants {
 public:
  // `before`: Latest() before it was asked for.
  void Add(uint64_t token, uint64_t before) {
    const base::MutexLock lock(mu_);
    EXPECT_GT(token, before);
    latest_ = std::max(latest_, token);
    ++count_;
  }
  uint64_t Latest() const {
    const base::MutexLock lock(mu_);
    return latest_;
  }
  int count() const {
    const base::MutexLock lock(mu_);
    return count_;
  }

 private:
  mutable base::Mutex mu_;
  uint64_t latest_ ABSL_GUARDED_BY(mu_) = 0;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

class ClusterFailover : public ::testing::Test {
 protected:
  ClusterFailover() {
    for (int c = 0; c < kClients; ++c) {
      for (int n = 0; n < kNames; ++n) {
        threads_.emplace_back([this, c, n] { Work(c, n); });
      }
    }
  }
  ~ClusterFailover() override {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  void Work(int client, int name) {
    SimpleLock lock(clients_[static_cast<size_t>(client)], NameOf(name),
                    {.lease = absl::Seconds(2)});
    Grants& grants = grants_[static_cast<size_t>(name)];
    while (!stop_) {
      const uint64_t before = grants.Latest();
      absl::StatusOr<Lease> lease = lock.Acquire({.wait = kClusterPatience});
      EXPECT_TRUE(lease.ok()) << lease.status();
      if (!lease.ok()) return;
      grants.Add(lease->fencing_token().value(), before);
      lease->Release().IgnoreError();  // it may be lost
    }
  }

  // Everybody is granted something from here on.
  bool AwaitProgress(absl::Duration patience) {
    std::vector<int> counts;
    for (const Grants& each : grants_) counts.push_back(each.count() + 2 * kClients);
    return Await(
        [&] {
          for (size_t i = 0; i < counts.size(); ++i) {
            if (grants_[i].count() < counts[i]) return false;
          }
          return true;
        },
        patience);
  }
  std::optional<size_t> OwnerOtherThan(size_t old, redis::Slot slot) {
    std::optional<size_t> owner;
    EXPECT_TRUE(Await(
        [&] {
          owner = group_->OwnerOf(slot);
          return owner && *owner != old;
        },
        kClusterPatience));
    return owner;
  }

  const std::unique_ptr<ClusterGroup> group_ = ClusterGroup::Start({.replicas = 1});
  std::vector<Client> clients_ = {*Client::Connect(group_->url()), *Client::Connect(group_->url()),
                                  *Client::Connect(group_->url())};
  std::array<Grants, kNames> grants_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST_F(ClusterFailover, OfAPrimaryThatIsKilledIsOverSoon) {
  ASSERT_TRUE(AwaitProgress(kClusterPatience));
  const redis::Slot slot = redis::SlotOf(NameOf(0));
  const size_t old = *group_->OwnerOf(slot);
  group_->server(old).Kill();
  ASSERT_TRUE(OwnerOtherThan(old, slot));
  EXPECT_TRUE(AwaitProgress(absl::Seconds(5)));
  group_->server(old).Restart();  // it is a replica then
  EXPECT_TRUE(AwaitProgress(absl::Seconds(5)));
}

TEST_F(ClusterFailover, LosesNothingThatItsReplicaHasConfirmed) {
  for (int i = 0; i < kNames; ++i) {
    SimpleLock lock(clients_[0], absl::StrCat("acked:", i),
                    {.lease = absl::Minutes(1), .replica_acks = 1});
    absl::StatusOr<Lease> lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(lease->acked_by(), 1);
    if (i == 0) {
      const redis::Slot slot = redis::SlotOf(lock.name());
      const size_t old = *group_->OwnerOf(slot);
      group_->server(old).Kill();
      ASSERT_TRUE(OwnerOtherThan(old, slot));
      EXPECT_TRUE(SimpleLock(clients_[1], lock.name()).TryAcquire().status().code() ==
                  absl::StatusCode::kDeadlineExceeded);
      EXPECT_TRUE(lease->Release().ok());
      group_->server(old).Restart();
      EXPECT_TRUE(group_->AwaitWell());
    }
  }
}

TEST_F(ClusterFailover, OfAPrimaryThatStepsDownIsOverSoon) {
  ASSERT_TRUE(AwaitProgress(kClusterPatience));
  for (size_t i = 3; i < 6; ++i) {
    EXPECT_EQ(group_->server(i).Text({"CLUSTER", "FAILOVER"}), "OK");
    EXPECT_TRUE(group_->server(i).AwaitInfo("role", "master"));
    EXPECT_TRUE(AwaitProgress(absl::Seconds(5)));
  }
}

TEST_F(ClusterFailover, OfAPrimaryThatHangsIsOverSoon) {
  ASSERT_TRUE(AwaitProgress(kClusterPatience));
  const redis::Slot slot = redis::SlotOf(NameOf(0));
  const size_t old = *group_->OwnerOf(slot);
  // Whoever is asked here would hang as well.
  const size_t replica = old + 3;
  group_->server(old).Stop();
  EXPECT_TRUE(group_->server(replica).AwaitInfo("role", "master", kClusterPatience));
  EXPECT_TRUE(AwaitProgress(absl::Seconds(5)));
  group_->server(old).Continue();
  EXPECT_TRUE(AwaitProgress(absl::Seconds(5)));
}

}  // namespace
}  // namespace redlatch
