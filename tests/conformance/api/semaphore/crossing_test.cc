// Changes of the capacity that cross requests, grants and refusals on their way.
#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::conformance {
namespace {

using support::Direction;
using support::Scope;

// What is left to a lease in these tests is left behind.
constexpr absl::Duration kLong = absl::Seconds(30);

class SemaphoreCrossing : public SemaphoreConformance {
 protected:
  // Leases are long here, and so are tombstones.
  ~SemaphoreCrossing() override {
    for (const redis::Reply& key : server().Command({"KEYS", "*.gone.*"}).elements) {
      server().Command({"DEL", key.text});
    }
  }

  Proxies proxy_{server().ports()};
  const Client far_ = ClientAt(UrlThrough(proxy_), "command_timeout=150ms");
  const Client near_ = NewClient();
  const std::unique_ptr<Semaphore> semaphore_ = NewSemaphore(far_, {.lease = kLong});
  const std::unique_ptr<Semaphore> theirs_ = NewSemaphore(near_);
};

TEST_P(SemaphoreCrossing, AShrinkBehindAnAcquireWhoseReplyWasLostLeavesNoPermitTaken) {
  EXPECT_TRUE(SoonGetsIn(*semaphore_));
  proxy_.Hold(Direction::kToClient, Scope::kExisting);
  Waiter waiter(*semaphore_, kCapacity);
  ASSERT_TRUE(AwaitFree(*theirs_, 0));  // executed
  EXPECT_OK(theirs_->SetCapacity(kCapacity - 1));
  proxy_.ResetAll();
  // It may say so, or find that it has them.
  EXPECT_TRUE(waiter.status().ok() || waiter.code() == kMisuse) << waiter.status();
  if (waiter.status().ok()) {
    EXPECT_TRUE(waiter.permit().valid());
    EXPECT_EQ(theirs_->Inspect()->used, kCapacity);
    EXPECT_OK(waiter.permit().Release());
  }
  EXPECT_TRUE(AwaitFree(*theirs_, kCapacity - 1));
}

TEST_P(SemaphoreCrossing, AShrinkBehindAGrantWhoseMessageWasLostLeavesNoPermitTaken) {
  EXPECT_TRUE(SoonGetsIn(*semaphore_));
  auto taken = Try(*theirs_, kCapacity);
  ASSERT_OK(taken);
  Waiter waiter(*semaphore_, kCapacity);
  ASSERT_TRUE(AwaitQueued(1));
  proxy_.Hold(Direction::kToClient, Scope::kExisting);
  EXPECT_OK(taken->Release());
  EXPECT_EQ(Free(*theirs_, 0), 0);  // granted
  EXPECT_OK(theirs_->SetCapacity(kCapacity - 1));
  proxy_.ResetAll();
  EXPECT_TRUE(waiter.status().ok() || waiter.code() == kMisuse) << waiter.status();
  if (waiter.status().ok()) {
    EXPECT_TRUE(waiter.permit().valid());
    EXPECT_OK(waiter.permit().Release());
  }
  EXPECT_TRUE(AwaitFree(*theirs_, kCapacity - 1));
}

TEST_P(SemaphoreCrossing, AShrinkThatItsWaiterDidNotHearOfEndsItsWaitingWhenItAsksNext) {
  const auto brief = NewSemaphore(far_, {.lease = kLease / 4});
  EXPECT_TRUE(SoonGetsIn(*brief));
  const auto taken = Try(*theirs_, kCapacity);
  ASSERT_OK(taken);
  Waiter waiter(*brief, kCapacity);
  ASSERT_TRUE(AwaitQueued(1));
  proxy_.Drop(Direction::kToClient, Scope::kExisting);
  EXPECT_OK(theirs_->SetCapacity(kCapacity - 1));
  proxy_.Heal();
  EXPECT_EQ(waiter.code(), kMisuse) << waiter.status();
  EXPECT_EQ(Queued(), 0);
}

TEST_P(SemaphoreCrossing, AShrinkThatWasTakenBackAtOnceEndsNoWaitingThatStillFits) {
  const auto taken = Try(*theirs_, kCapacity);
  ASSERT_OK(taken);
  Waiter small(*semaphore_);
  ASSERT_TRUE(AwaitQueued(1));
  for (int i = 0; i < 20; ++i) {
    EXPECT_OK(theirs_->SetCapacity(1));
    EXPECT_OK(theirs_->SetCapacity(kCapacity));
  }
  EXPECT_FALSE(small.done());
  EXPECT_EQ(Queued(), 1);
  EXPECT_OK(theirs_->ForceRelease());
  EXPECT_OK(small.status());
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreCrossing);

}  // namespace
}  // namespace redlatch::conformance
