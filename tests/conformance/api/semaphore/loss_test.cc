// The loss of permits: who is told, when, and what the loser can no longer do. What it has in
// common with that of locks: ../loss_test.cc.
#include <memory>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kLostPermitLease = absl::Milliseconds(300);

class SemaphoreLoss : public SemaphoreConformance {
 protected:
  static bool AwaitLost(const Permit& permit) {
    return Await([token = permit.lost()] { return token.stop_requested(); });
  }

  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  const Client client_ = NewClient("command_timeout=200ms", {.observer = heard_});
  const Client other_ = NewClient();
  const std::unique_ptr<Semaphore> semaphore_ = NewSemaphore(client_);
  const std::unique_ptr<Semaphore> theirs_ = NewSemaphore(other_);
};

TEST_P(SemaphoreLoss, ByForceIsToldToAllAtOnce) {
  auto two = Try(*semaphore_, 2);
  auto theirs = Try(*theirs_);
  ASSERT_OK(two);
  ASSERT_OK(theirs);
  const base::Instant forced = base::Now();
  EXPECT_OK(theirs_->ForceRelease());
  EXPECT_TRUE(AwaitLost(*two));
  EXPECT_TRUE(AwaitLost(*theirs));
  EXPECT_LT(base::Now() - forced, kSoon);
  EXPECT_FALSE(two->valid());
  EXPECT_EQ(two->remaining(), absl::ZeroDuration());
  EXPECT_EQ(CodeOf(two->Release()), kLost);
  EXPECT_EQ(CodeOf(two->Release()), kLost);
  EXPECT_EQ(CodeOf(theirs->Release()), kLost);
  EXPECT_EQ(Free(*theirs_, kCapacity), kCapacity);
  EXPECT_TRUE(heard_->Await("lost"));
  EXPECT_EQ(heard_->Count("lost"), 1) << "only that of this client";
}

TEST_P(SemaphoreLoss, ByDataThatAreGoneIsToldByTheNextRenewal) {
  const auto brief = NewSemaphore(client_, {.lease = kLostPermitLease});
  auto permit = Try(*brief, 2);
  ASSERT_OK(permit);
  server().Command({"FLUSHALL"});
  const auto next = Try(*theirs_, kCapacity);
  ASSERT_OK(next);
  EXPECT_TRUE(AwaitLost(*permit));
  EXPECT_TRUE(heard_->Await("lost"));
  EXPECT_EQ(CodeOf(permit->Release()), kLost);
  EXPECT_TRUE(next->valid());
  EXPECT_EQ(Free(*theirs_, 0), 0);
}

TEST_P(SemaphoreLoss, OfOneHoldIsNoneOfTheOthers) {
  auto manual = semaphore_->Acquire(1, {.wait = kPatience, .lease = kLostPermitLease});
  auto renewed = semaphore_->Acquire(1);
  ASSERT_OK(manual);
  ASSERT_OK(renewed);
  EXPECT_TRUE(AwaitLost(*manual));
  EXPECT_TRUE(AwaitFree(*theirs_, kCapacity - 1));
  EXPECT_TRUE(renewed->valid());
  EXPECT_FALSE(renewed->lost().stop_requested());
  EXPECT_OK(renewed->Release());
  EXPECT_EQ(CodeOf(manual->Release()), kLost);
  EXPECT_TRUE(heard_->Await("lost"));
  EXPECT_EQ(heard_->Count("lost"), 1);
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreLoss);

}  // namespace
}  // namespace redlatch::conformance
