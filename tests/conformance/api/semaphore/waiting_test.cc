// Waiting for permits, and what ends with the semaphore's objects. What it has in common with
// waiting for locks: ../waiting_test.cc.
#include <optional>

#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

class SemaphoreWaiting : public SemaphoreOfThree {
 protected:
  // All are taken, for as long as this test.
  void Occupy() {
    taken_ = *Try(*theirs_, kCapacity);
    ASSERT_TRUE(taken_.valid());
  }
  Permit taken_;
};

TEST_P(SemaphoreWaiting, EndsWithTheObjectInWhichItIsAndGoesOnInOthers) {
  Occupy();
  auto goes = NewSemaphore(client_);
  Waiter first(*goes, 1, {});
  ASSERT_TRUE(AwaitQueued(1));
  Waiter stays(*semaphore_);
  ASSERT_TRUE(AwaitQueued(2));
  Waiter second(*goes, 2, {});
  ASSERT_TRUE(AwaitQueued(3));
  goes.reset();
  EXPECT_EQ(first.code(), kCancelled);
  EXPECT_EQ(second.code(), kCancelled);
  EXPECT_TRUE(AwaitQueued(1));
  EXPECT_FALSE(stays.done());
  EXPECT_OK(taken_.Release());
  EXPECT_OK(stays.status());
}

TEST_P(SemaphoreWaiting, OfAcquireThrowsWhereItsObjectGoes) {
  Occupy();
  auto goes = NewSemaphore(client_);
  Crew crew;
  crew.Start(2, [&goes = *goes](int) { EXPECT_EQ(Thrown([&] { goes.acquire(); }), kCancelled); });
  ASSERT_TRUE(AwaitQueued(2));
  goes.reset();
  crew.Join();
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(SemaphoreWaiting, TheLastObjectGivesBackWhatAcquireHasTakenAndNoPermit) {
  const Client client = NewClient();
  auto first = NewSemaphore(client);
  auto last = NewSemaphore(client);
  std::optional<Permit> permit;
  first->acquire();
  EXPECT_TRUE(last->try_acquire_for(std::chrono::seconds(5)));
  permit = *Try(*first);
  first.reset();
  EXPECT_EQ(Free(*thirds_, 0), 0);
  last.reset();
  EXPECT_TRUE(AwaitFree(*thirds_, 2));
  EXPECT_TRUE(permit->valid());
  const auto again = NewSemaphore(client);
  EXPECT_EQ(Thrown([&] { again->release(); }), kMisuse) << "nothing is left of them";
  EXPECT_EQ(Free(*thirds_, 2), 2);
  permit.reset();
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphoreWaiting, TheLastObjectGivesPermitsBackThoughItIsTheClientsLastToo) {
  {
    const auto semaphore = NewSemaphore(NewClient());
    for (int i = 0; i < kCapacity; ++i) semaphore->acquire();
  }
  EXPECT_TRUE(AwaitFree(*thirds_));
}

TEST_P(SemaphoreWaiting, ThatSucceedsJustWhenItsObjectGoesKeepsNoPermit) {
  for (int i = 0; i < support::Scaled(100); ++i) {
    auto all = Try(*theirs_, kCapacity);
    ASSERT_OK(all);
    auto goes = NewSemaphore(client_);
    Crew crew;
    crew.Start([&goes = *goes] {
      const absl::StatusCode thrown = Thrown([&] { goes.acquire(); });
      EXPECT_TRUE(thrown == kOk || thrown == kCancelled) << absl::StatusCodeToString(thrown);
    });
    ASSERT_TRUE(AwaitQueued(1));
    crew.Start([&] { EXPECT_OK(all->Release()); });
    // The message takes about so long.
    base::Parker().ParkUntil(base::Now() + absl::Microseconds(3 * i));
    goes.reset();
    crew.Join();
    ASSERT_TRUE(AwaitFree(*thirds_));
  }
}

INSTANTIATE_FOR_SEMAPHORE(SemaphoreWaiting);

}  // namespace
}  // namespace redlatch::conformance
