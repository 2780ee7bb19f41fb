// A slot that is on the move for longer than an answer may take: who locks there waits.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/redis/wire/slot.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/cluster_group.h"

namespace redlatch {
namespace {

using support::ClusterGroup;

constexpr absl::Duration kMovePatience = absl::Seconds(20);
constexpr absl::Duration kMove = absl::Milliseconds(1500);  // command_timeout is 1 s

class ClusterLongMove : public ::testing::Test {
 protected:
  // Each at the same time, while the slot of "{moving}" moves.
  void ExpectAllWait() {
    const redis::Slot slot = redis::SlotOf("{moving}");
    const size_t to = (*group_->OwnerOf(slot) + 1) % group_->servers();
    group_->BeginMove(slot, to);
    std::vector<std::thread> threads;
    for (const auto& use : Uses()) {
      threads.emplace_back([use] {
        const absl::Status status = use();
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    soak::Pass(kMove);
    group_->FinishMove(slot, to);
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::function<absl::Status()>> Uses() {
    return {[this] { return simple_.Acquire({.wait = kMovePatience}).status(); },
            [this] { return read_write_.AcquireRead({.wait = kMovePatience}).status(); },
            [this] { return semaphore_.Acquire(1, {.wait = kMovePatience}).status(); },
            [this] { return latch_.CountDown(); }};
  }

  const std::unique_ptr<ClusterGroup> group_ = ClusterGroup::Start();
  const Client client_ = *Client::Connect(group_->url());
  SimpleLock simple_{client_, "{moving}:simple"};
  ReentrantReadWriteLock read_write_{client_, "{moving}:read_write"};
  Semaphore semaphore_{client_, "{moving}:semaphore", 2};
  CountDownLatch latch_{client_, "{moving}:latch", 10};
};

TEST_F(ClusterLongMove, WhoUsesWhatIsThereWaitsUntilItIsOver) {
  for (const auto& use : Uses()) EXPECT_TRUE(use().ok());
  ExpectAllWait();
}

// Its keys are where the slot is not yet.
TEST_F(ClusterLongMove, WhatIsHeldIsRenewedAfterIt) {
  constexpr absl::Duration kLease = absl::Seconds(3);  // renewed each third
  const redis::Slot slot = redis::SlotOf("{moving}");
  const size_t from = *group_->OwnerOf(slot);
  const size_t to = (from + 1) % group_->servers();
  std::vector<std::unique_ptr<SimpleLock>> locks;
  std::vector<Lease> leases;
  for (const char* name : {"{moving}:1", "{moving}:2", "stays"}) {
    locks.push_back(std::make_unique<SimpleLock>(client_, name, LockOptions{.lease = kLease}));
    leases.push_back(*locks.back()->Acquire({.wait = kMovePatience}));
  }
  group_->BeginMove(slot, to);
  group_->MoveKeys(slot, from, to);
  soak::Pass(kMove);
  group_->FinishMove(slot, to);
  soak::Pass(kLease - kMove);
  for (const Lease& lease : leases) EXPECT_TRUE(lease.valid());
  for (Lease& lease : leases) EXPECT_TRUE(lease.Release().ok());
}

TEST_F(ClusterLongMove, WhoUsesANewNameWaitsUntilItIsOver) { ExpectAllWait(); }

}  // namespace
}  // namespace redlatch
