// Locks that stay with a client of a cluster: called back over the channel of their slot, wherever
// that is.
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/redis/wire/slot.h"
#include "tests/support/cluster_group.h"
#include "tests/support/connect.h"

namespace redlatch {
namespace {

using support::ClusterGroup;
using support::Connect;

constexpr char kName[] = "kept";
// By which an idle lock is called back that its client has not heard to be wanted is a third of it.
const LockOptions kKept{.lease = absl::Seconds(60), .keep = absl::Seconds(60)};
constexpr absl::Duration kAMoment = absl::Seconds(3);

class ClusterKeep : public ::testing::Test {
 protected:
  bool IsFree() { return group_->CommandAt(kName, {"EXISTS", kName}).integer == 0; }
  void Move() {
    const redis::Slot slot = redis::SlotOf(kName);
    group_->Move(slot, (*group_->OwnerOf(slot) + 1) % group_->servers());
  }
  template <class Lock>
  static void TakeAndLeave(Lock& lock) {
    lock.lock();
    lock.unlock();
  }
  // By another client.
  absl::Duration TimeToTake() {
    const base::Instant began = base::Now();
    TakeAndLeave(theirs_);
    return base::Now() - began;
  }

  const std::unique_ptr<ClusterGroup> group_ = ClusterGroup::Start();
  const Client client_ = Connect(group_->url());
  const Client other_ = Connect(group_->url());
  SimpleLock lock_{client_, kName, kKept};
  SimpleLock theirs_{other_, kName};
};

TEST_F(ClusterKeep, AnIdleLockIsCalledBack) {
  TakeAndLeave(lock_);
  ASSERT_FALSE(IsFree());
  EXPECT_LT(TimeToTake(), kAMoment);
}

TEST_F(ClusterKeep, AnIdleLockWhoseSlotHasMovedIsCalledBack) {
  TakeAndLeave(lock_);
  Move();
  ASSERT_FALSE(IsFree());
  EXPECT_LT(TimeToTake(), kAMoment);
  TakeAndLeave(lock_);
  Move();
  EXPECT_LT(TimeToTake(), kAMoment);
}

TEST_F(ClusterKeep, IdleReadsWhoseSlotHasMovedAreCalledBack) {
  ReentrantReadWriteLock reads(client_, "{kept}:reads", kKept);
  ReentrantReadWriteLock writes(other_, "{kept}:reads");
  reads.lock_shared();
  reads.unlock_shared();
  Move();
  const base::Instant began = base::Now();
  TakeAndLeave(writes);
  EXPECT_LT(base::Now() - began, kAMoment);
}

}  // namespace
}  // namespace redlatch
