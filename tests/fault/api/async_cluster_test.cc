// Acquisitions that no thread waits for, of a cluster whose slots move.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/redis/wire/slot.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"
#include "tests/support/connect.h"

namespace redlatch {
namespace {

using support::Await;
using support::ClusterGroup;
using support::Connect;

class AsyncCluster : public ::testing::Test {
 protected:
  // Acquires and releases, until it is told to end.
  void Run(SimpleLock& lock, std::atomic<int>& holders) {
    if (ends_) {
      --running_;
      return;
    }
    lock.AcquireAsync({.wait = absl::Seconds(20)}, [&](absl::StatusOr<Lease> lease) {
      if (!lease.ok()) {
        ADD_FAILURE() << lease.status();
        --running_;
        return;
      }
      EXPECT_EQ(++holders, 1);
      --holders;
      lease->ReleaseAsync([&](const absl::Status& released) {
        EXPECT_EQ(released, absl::OkStatus());
        ++pairs_;
        Run(lock, holders);
      });
    });
  }
  bool AwaitMore(int pairs) {
    return Await([&, until = pairs_ + pairs] { return pairs_ >= until; }, absl::Seconds(30));
  }

  const std::unique_ptr<ClusterGroup> group_ = ClusterGroup::Start();
  const Client client_ = Connect(group_->url());
  const Client other_ = Connect(group_->url());
  std::atomic<bool> ends_{false};
  std::atomic<int> running_{0};
  std::atomic<int> pairs_{0};
};

TEST_F(AsyncCluster, PairsGoOnWhileSlotsMove) {
  constexpr size_t kLocks = 6;
  std::vector<std::unique_ptr<SimpleLock>> locks;
  std::vector<std::atomic<int>> holders(kLocks);
  for (size_t i = 0; i < kLocks; ++i) {
    for (const Client* client : {&client_, &other_}) {
      locks.push_back(std::make_unique<SimpleLock>(*client, absl::StrCat("lock", i)));
      ++running_;
      Run(*locks.back(), holders[i]);
    }
  }
  EXPECT_TRUE(AwaitMore(200));
  for (size_t i = 0; i < kLocks; ++i) {
    const redis::Slot slot = redis::SlotOf(absl::StrCat("lock", i));
    group_->Move(slot, (*group_->OwnerOf(slot) + 1) % group_->servers());
    EXPECT_TRUE(AwaitMore(50));
  }
  ends_ = true;
  EXPECT_TRUE(Await([&] { return running_ == 0; }, absl::Seconds(30)));
}

}  // namespace
}  // namespace redlatch
