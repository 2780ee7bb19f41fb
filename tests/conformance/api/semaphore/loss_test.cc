// The loss of permits: who is told, when, and what the loser can no longer do. What it has in
// common with that of locks: ../loss_test.cc.
#include <atomic>
#include <memory>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/punctuality.h"
#include "tests/support/test_scale.h"

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

TEST_P(SemaphoreLoss, OfThousandsIsToldAtOnceToo) {
  const int many = support::Scaled(4000);
  std::atomic<int> told{0};
  const auto semaphore = NewSemaphore(
      client_, {.lease = kPatience, .on_lost = [&](const LostLease&) { ++told; }}, many);
  for (int i = 0; i < many; ++i) semaphore->acquire();
  const base::Instant forced = base::Now();
  EXPECT_OK(semaphore->ForceRelease());
  EXPECT_TRUE(Await([&] { return told == many; }));
  EXPECT_LT(base::Now() - forced, kPatience / 2) << "not with the renewals";
}

TEST_P(SemaphoreLoss, OfWhatAcquireTookIsToldToo) {
  std::atomic<int> told{0};
  const auto semaphore =
      NewSemaphore(client_, {.lease = kLease, .on_lost = [&](const LostLease&) { ++told; }});
  semaphore->acquire();
  semaphore->acquire();
  EXPECT_OK(theirs_->ForceRelease());
  EXPECT_TRUE(Await([&] { return told == 2; }));
  semaphore->release(2);
  EXPECT_EQ(Thrown([&] { semaphore->release(); }), kMisuse);
  EXPECT_EQ(Free(*theirs_, kCapacity), kCapacity);
  EXPECT_EQ(heard_->Count("misuse"), 0);
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

TEST_P(SemaphoreLoss, ByDataThatAreGoneLeavesNobodyWaiting) {
  const auto brief = NewSemaphore(client_, {.lease = kLostPermitLease});
  const auto permit = Try(*theirs_, kCapacity);
  ASSERT_OK(permit);
  Waiter first(*brief, 2);
  ASSERT_TRUE(AwaitQueued(1));
  Waiter second(*brief);
  ASSERT_TRUE(AwaitQueued(2));
  server().Command({"FLUSHALL"});
  EXPECT_OK(first.status());
  EXPECT_OK(second.status());
  EXPECT_EQ(Free(*theirs_, 0), 0);
}

TEST_P(SemaphoreLoss, ToAServerThatIsGoneIsToldByTheLocalDeadline) {
  const auto brief = NewSemaphore(client_, {.lease = kLostPermitLease});
  auto permit = Try(*brief);
  brief->acquire();
  ASSERT_OK(permit);
  const base::Instant deadline = base::Now() + permit->remaining() + kLostPermitLease;
  server().Kill();
  EXPECT_TRUE(AwaitLost(*permit));
  EXPECT_TRUE(heard_->Await("lost", 2));
  EXPECT_LT(base::Now(), deadline);
  EXPECT_EQ(CodeOf(permit->Release()), kLost);
  brief->release();
  server().Restart();
  EXPECT_OK(brief->Acquire(kCapacity, {.wait = kPatience}));
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

TEST_P(SemaphoreLoss, TakesNothingOfTheNext) {
  auto mine = Try(*semaphore_, kCapacity);
  ASSERT_OK(mine);
  Waiter next(*theirs_, 2);
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_OK(semaphore_->ForceRelease());
  EXPECT_OK(next.status());
  EXPECT_TRUE(AwaitLost(*mine));
  EXPECT_EQ(CodeOf(mine->Release()), kLost);
  mine = Permit();
  EXPECT_TRUE(next.permit().valid());
  EXPECT_EQ(Free(*theirs_, kCapacity - 2), kCapacity - 2);
}

// As a person may do by hand: the capacity is forgotten, the holds are not, and all goes on.
TEST_P(SemaphoreLoss, OfTheSemaphoresOwnKeyHindersNobody) {
  const auto brief = NewSemaphore(client_, {.lease = kLostPermitLease});
  auto permit = Try(*brief);
  ASSERT_OK(permit);
  EXPECT_EQ(server().Integer({"DEL", Key()}), 1);
  EXPECT_TRUE(heard_->Await("renewed", 3) || !permit->valid());
  const bool kept = permit->valid();
  EXPECT_EQ(CodeOf(permit->Release()), kept ? kOk : kLost);
  EXPECT_OK(Try(*theirs_, kCapacity));
  EXPECT_EQ(Free(*theirs_, kCapacity), kCapacity);
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreLoss);

}  // namespace
}  // namespace redlatch::conformance
