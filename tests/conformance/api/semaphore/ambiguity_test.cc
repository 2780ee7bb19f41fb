// Replies that are lost and requests that are late: never more permits than there are, and all of
// them free in the end.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

using support::Direction;
using support::Scope;

constexpr char kUrlOptions[] = "command_timeout=150ms";
constexpr absl::Duration kShort = absl::Milliseconds(600);

class SemaphoreAmbiguity : public SemaphoreConformance {
 protected:
  // Behind the proxy, and used already, so that both its connections are there.
  Client NewFarClient() {
    Client client = ClientAt(proxy_.url(), kUrlOptions, {.observer = heard_});
    EXPECT_TRUE(GetsIn(*NewSemaphore(client, kCapacity, "warm")));
    return client;
  }
  std::unique_ptr<Semaphore> NewFar(absl::Duration lease = kShort) {
    return NewSemaphore(NewFarClient(), {.lease = lease});
  }
  // The next reply is lost with its connection, or without a sound.
  void LoseNextReply(bool silently) {
    silently ? proxy_.DropReplies(1) : proxy_.CutAfter(Direction::kToClient, 0);
  }
  // Requests that are sent from now on wait in the proxy, while their sender is told that its
  // connection is over; what it sends after that passes.
  void DelayRequestsOf(Crew& crew, std::function<void()> call) {
    proxy_.Hold(Direction::kToServer, Scope::kExisting);
    crew.Start(std::move(call));
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting > 0; }));
    proxy_.HalfClose(Direction::kToClient);
  }
  void DeliverWhatWaits() {
    proxy_.ReleaseHeld();
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting == 0; }));
  }
  bool AwaitTombstone() {
    return Await([&] { return !server().Command({"KEYS", "*.gone.*"}).elements.empty(); });
  }

  support::TcpProxy proxy_{{.port = server().port()}};
  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  const Client near_ = NewClient();
  const std::unique_ptr<Semaphore> theirs_ = NewSemaphore(near_);
};

TEST_P(SemaphoreAmbiguity, OfAnAcquireWhoseReplyWasLostIsOneAcquisition) {
  for (const int64_t permits : {1, 2}) {
    for (const bool silently : {false, true}) {
      const auto semaphore = NewFar();
      LoseNextReply(silently);
      auto permit = semaphore->Acquire(permits, {.wait = kPatience});
      ASSERT_OK(permit);
      EXPECT_TRUE(permit->valid());
      EXPECT_EQ(Free(*theirs_), kCapacity - permits);
      EXPECT_EQ(theirs_->holders()->size(), 1);
      EXPECT_OK(permit->Release());
      EXPECT_EQ(Free(*theirs_), kCapacity);
    }
  }
}

TEST_P(SemaphoreAmbiguity, OfAnAcquireByTheStdFaceIsOnePermit) {
  const auto semaphore = NewFar();
  LoseNextReply(/*silently=*/false);
  semaphore->acquire();
  EXPECT_EQ(Free(*theirs_), kCapacity - 1);
  semaphore->release();
  EXPECT_EQ(Free(*theirs_), kCapacity);
  EXPECT_EQ(Thrown([&] { semaphore->release(); }), kMisuse);
}

TEST_P(SemaphoreAmbiguity, OfAnAcquireThatIsGivenUpKeepsNoPermit) {
  for (const int64_t permits : {int64_t{1}, kCapacity}) {
    const auto semaphore = NewFar();
    proxy_.Drop(Direction::kToClient);
    EXPECT_EQ(CodeOf(semaphore->TryAcquire(permits)), kUnreachable);
    proxy_.Heal();
    EXPECT_OK(theirs_->Acquire(kCapacity, {.wait = kShort / 2}));  // by the background
  }
}

TEST_P(SemaphoreAmbiguity, OfAReleaseWhoseReplyWasLostIsOneReleaseAndItMayBeCalledAgain) {
  for (const bool silently : {false, true}) {
    // A connection that only goes silent is given up after a second.
    const auto semaphore = NewFar(silently ? kLease : kShort);
    auto permit = semaphore->Acquire(2);
    ASSERT_OK(permit);
    LoseNextReply(silently);
    const absl::Status first = permit->Release();
    EXPECT_TRUE(first.ok() || first.code() == kUnreachable) << first;
    EXPECT_FALSE(permit->valid());
    const auto all = Try(*theirs_, kCapacity);  // it was executed
    ASSERT_OK(all);
    absl::Status again;
    EXPECT_TRUE(Await([&] {
      again = permit->Release();
      return again.code() != kUnreachable;
    }));
    EXPECT_OK(again);
    EXPECT_TRUE(all->valid());
    EXPECT_EQ(Free(*theirs_), 0);
  }
  EXPECT_EQ(heard_->Count("lost"), 0);
}

TEST_P(SemaphoreAmbiguity, OfAReleaseByTheStdFaceCountsOnce) {
  const auto semaphore = NewFar();
  semaphore->acquire();
  semaphore->acquire();
  LoseNextReply(/*silently=*/false);
  const absl::StatusCode thrown = Thrown([&] { semaphore->release(); });
  EXPECT_TRUE(thrown == kOk || thrown == kUnreachable);
  EXPECT_TRUE(AwaitFree(*theirs_, kCapacity - 1));
  semaphore->release();
  EXPECT_EQ(Free(*theirs_), kCapacity);
  EXPECT_EQ(Thrown([&] { semaphore->release(); }), kMisuse);
}

TEST_P(SemaphoreAmbiguity, OfAReleaseThatNeverArrivedIsMendedInTheBackground) {
  const auto semaphore = NewFar();
  std::optional<Permit> permit = *semaphore->Acquire(2);
  semaphore->acquire();
  proxy_.Drop(Direction::kToServer);
  permit.reset();
  (void)Thrown([&] { semaphore->release(); });
  EXPECT_EQ(Free(*theirs_), 0);
  proxy_.Heal();
  EXPECT_OK(theirs_->Acquire(kCapacity, {.wait = kPatience}));
}

TEST_P(SemaphoreAmbiguity, OfARenewalWhoseReplyWasLostIsNoLoss) {
  const auto semaphore = NewFar();
  auto permit = semaphore->Acquire(2);
  ASSERT_OK(permit);
  for (int risk = 1; risk <= 3; ++risk) {
    LoseNextReply(/*silently=*/false);
    EXPECT_TRUE(heard_->Await("recovered", risk));
  }
  EXPECT_TRUE(permit->valid());
  EXPECT_OK(permit->Release());
  EXPECT_EQ(heard_->Count("lost"), 0);
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
  EXPECT_EQ(Free(*theirs_), 0);
  EXPECT_EQ(theirs_->holders()->size(), 2);
}

TEST_P(SemaphoreAmbiguity, OfARequestThatArrivesAfterTheReleaseTakesAndQueuesNothing) {
  const auto semaphore = NewFar();
  Crew crew;
  DelayRequestsOf(crew, [&] { EXPECT_OK(semaphore->Acquire(2, {.wait = kPatience})); });
  crew.Join();
  EXPECT_TRUE(AwaitTombstone());
  DeliverWhatWaits();
  EXPECT_TRUE(GetsIn(*theirs_, kCapacity));
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
}

TEST_P(SemaphoreAmbiguity, OfARequestThatArrivesAfterItsTryWasGivenUpTakesNothing) {
  const auto semaphore = NewFar();
  Crew crew;
  DelayRequestsOf(crew, [&] {
    // It may have tried a second time on a new connection, where it had an answer.
    const auto permit = semaphore->TryAcquire(2);
    EXPECT_TRUE(permit.ok() || CodeOf(permit) == kUnreachable) << permit.status();
  });
  crew.Join();
  EXPECT_TRUE(AwaitTombstone());
  DeliverWhatWaits();
  EXPECT_TRUE(GetsIn(*theirs_, kCapacity));
}

TEST_P(SemaphoreAmbiguity, OfARequestThatArrivesAfterItsWaiterWasServedQueuesNothing) {
  auto taken = Try(*theirs_, kCapacity);
  ASSERT_OK(taken);
  const auto semaphore = NewFar();
  Crew crew;
  DelayRequestsOf(crew, [&] { EXPECT_OK(semaphore->Acquire(2, {.wait = kPatience})); });
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_OK(taken->Release());
  crew.Join();
  EXPECT_TRUE(AwaitFree(*theirs_));
  DeliverWhatWaits();
  EXPECT_TRUE(GetsIn(*theirs_, kCapacity));
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
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
  EXPECT_EQ(Free(*theirs_), 0);
}

TEST_P(SemaphoreAmbiguity, OfEveryReplyAtRandomLosesNothing) {
  const Client far[] = {NewFarClient(), NewFarClient()};
  Room room(kCapacity);
  std::atomic<bool> stop{false};
  Crew crew;
  for (const Client& client : far) {
    crew.Start(3, [&](int thread) {
      const auto semaphore = NewSemaphore(client, {.lease = kShort});
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
