// Replies that are lost and requests that are late: never more permits than there are, and all of
// them free in the end. What it has in common with the locks: ../ambiguity_test.cc.
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>

#include "gtest/gtest.h"
#include "tests/conformance/api/behind_proxy.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kAmbiguousLease = absl::Milliseconds(600);

class SemaphoreAmbiguity : public BehindProxy<SemaphoreConformance> {
 protected:
  // Used already, so that both its connections are there.
  Client NewUsedClient() {
    Client client = NewFarClient();
    EXPECT_TRUE(SoonGetsIn(*NewSemaphore(client, kCapacity, "warm")));
    return client;
  }
  std::unique_ptr<Semaphore> NewFar() {
    return NewSemaphore(NewUsedClient(), {.lease = kAmbiguousLease});
  }

  const std::unique_ptr<Semaphore> theirs_ = NewSemaphore(near_);
};

TEST_P(SemaphoreAmbiguity, OfAnAcquireByTheStdFaceIsOnePermit) {
  const auto semaphore = NewFar();
  LoseNextReply();
  semaphore->acquire();
  EXPECT_EQ(Free(*theirs_, kCapacity - 1), kCapacity - 1);
  semaphore->release();
  EXPECT_EQ(Free(*theirs_, kCapacity), kCapacity);
  EXPECT_EQ(Thrown([&] { semaphore->release(); }), kMisuse);
}

TEST_P(SemaphoreAmbiguity, OfAReleaseByTheStdFaceCountsOnce) {
  const auto semaphore = NewFar();
  semaphore->acquire();
  semaphore->acquire();
  LoseNextReply();
  const absl::StatusCode thrown = Thrown([&] { semaphore->release(); });
  EXPECT_TRUE(thrown == kOk || thrown == kUnreachable);
  EXPECT_TRUE(AwaitFree(*theirs_, kCapacity - 1));
  semaphore->release();
  EXPECT_EQ(Free(*theirs_, kCapacity), kCapacity);
  EXPECT_EQ(Thrown([&] { semaphore->release(); }), kMisuse);
}

TEST_P(SemaphoreAmbiguity, OfAReleaseThatNeverArrivedIsMendedInTheBackground) {
  const auto semaphore = NewFar();
  std::optional<Permit> permit = *semaphore->Acquire(2);
  semaphore->acquire();
  proxy_.Drop(Direction::kToServer);
  permit.reset();
  (void)Thrown([&] { semaphore->release(); });
  EXPECT_EQ(Free(*theirs_, 0), 0);
  proxy_.Heal();
  EXPECT_OK(theirs_->Acquire(kCapacity, {.wait = kPatience}));
}

TEST_P(SemaphoreAmbiguity, OfAGrantWhoseMessageWasLostIsMendedByTheHeartbeat) {
  auto taken = Try(*theirs_, kCapacity);
  ASSERT_OK(taken);
  const auto semaphore = NewFar();
  Waiter first(*semaphore, 2);
  ASSERT_TRUE(AwaitQueued(1));
  Waiter second(*semaphore);
  ASSERT_TRUE(AwaitQueued(2));
  proxy_.Drop(Direction::kToClient, Scope::kExisting);
  EXPECT_OK(taken->Release());
  EXPECT_TRUE(AwaitQueued(0));  // both were granted
  proxy_.Heal();
  EXPECT_OK(first.status());
  EXPECT_OK(second.status());
  EXPECT_TRUE(first.permit().valid() && second.permit().valid());
  EXPECT_EQ(Free(*theirs_, 0), 0);
  EXPECT_EQ(theirs_->holders()->size(), 2);
}

// The waiter gives up while its grant is held back on its way.
TEST_P(SemaphoreAmbiguity, OfACancelThatCrossesAGrantGivesThePermitsOn) {
  auto taken = Try(*theirs_, kCapacity);
  ASSERT_OK(taken);
  const auto semaphore = NewFar();
  std::stop_source stop;
  Waiter gives_up(*semaphore, 2, {.stop = stop.get_token()});
  ASSERT_TRUE(AwaitQueued(1));
  Waiter next(*theirs_, kCapacity);
  ASSERT_TRUE(AwaitQueued(2));
  proxy_.Hold(Direction::kToClient, Scope::kExisting);
  EXPECT_OK(taken->Release());
  EXPECT_EQ(Queued(), 1);  // it has them, and does not know
  EXPECT_FALSE(gives_up.done() || next.done());
  stop.request_stop();
  EXPECT_EQ(gives_up.code(), kCancelled);
  EXPECT_OK(next.status());
  proxy_.Heal();
  EXPECT_TRUE(next.permit().valid());
  EXPECT_EQ(Free(*theirs_, 0), 0);
}

TEST_P(SemaphoreAmbiguity, OfEveryReplyAtRandomLosesNothing) {
  const Client far[] = {NewUsedClient(), NewUsedClient()};
  Room room(kCapacity);
  std::atomic<bool> stop{false};
  Crew crew;
  for (const Client& client : far) {
    crew.Start(3, [&](int thread) {
      const auto semaphore = NewSemaphore(client, {.lease = kAmbiguousLease});
      while (!stop) {
        auto permit = semaphore->Acquire(1 + thread, {.wait = kPatience});
        ASSERT_OK(permit);
        room.Use(*permit);
        const absl::Status released = permit->Release();
        EXPECT_TRUE(released.ok() || released.code() == kUnreachable) << released;
      }
    });
  }
  for (int i = 0; i < support::Scaled(20); ++i) {
    const int64_t before = room.uses();
    EXPECT_TRUE(Await([&] { return room.uses() > before + 5; }));
    LoseNextReply(/*silently=*/i % 5 == 4);
  }
  stop = true;
  crew.Join();
  EXPECT_GT(room.most(), 1);
  EXPECT_TRUE(AwaitFree(*theirs_));
  EXPECT_EQ(heard_->Count("lost"), 0);
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreAmbiguity);

}  // namespace
}  // namespace redlatch::conformance
