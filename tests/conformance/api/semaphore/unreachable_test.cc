// A server that hangs, is down or is not there yet: it is never taken for a semaphore without free
// permits.
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

constexpr absl::Duration kTimeout = absl::Milliseconds(200);
constexpr char kUrlOptions[] = "command_timeout=200ms&connect_timeout=200ms";

class SemaphoreUnreachable : public SemaphoreConformance {
 protected:
  SemaphoreUnreachable() { UseOwnServer(); }

  // The server hangs, or is gone, in this scope.
  enum class How : uint8_t { kHangs, kIsDown };
  class Outage {
   public:
    Outage(support::RedisServer& server, How how) : server_(server), how_(how) {
      how == How::kHangs ? server.Stop() : server.Kill();
    }
    ~Outage() { how_ == How::kHangs ? server_.Continue() : server_.Restart(); }

   private:
    support::RedisServer& server_;
    const How how_;
  };

  Client NewClient(ClientOptions options = {}) {
    return Conformance::NewClient(kUrlOptions, std::move(options));
  }
  // What is given up without an answer leaves a tombstone, for as long as its lease.
  static std::unique_ptr<Semaphore> NewShort(const Client& client) {
    return NewSemaphore(client, {.lease = kLease / 5});
  }
  // Of a client that has used it already.
  std::unique_ptr<Semaphore> NewWarm(ClientOptions options = {}) {
    auto semaphore = NewShort(NewClient(std::move(options)));
    EXPECT_TRUE(GetsIn(*semaphore));
    return semaphore;
  }
  static void ExpectUnreachable(Semaphore& semaphore) {
    // A cold program is late for the pages that it has to fetch first.
    (void)AskInTime(semaphore);
    EXPECT_TRUE(AskInTime(semaphore));
  }
  static ::testing::AssertionResult AskInTime(Semaphore& semaphore) {
    Punctuality punctuality;
    const auto expect = [&](absl::Duration wait, const auto& call) {
      const base::Instant deadline = base::Now() + wait;
      EXPECT_EQ(call(), kUnreachable);
      EXPECT_GE(base::Now(), deadline);
      punctuality.Note(deadline);
    };
    expect(kTimeout, [&] { return CodeOf(semaphore.TryAcquire(2)); });
    expect(kTimeout, [&] { return Thrown([&] { (void)semaphore.try_acquire(); }); });
    for (const int wait_ms : {1, 80}) {
      const absl::Duration wait = absl::Milliseconds(wait_ms);
      expect(wait, [&] { return CodeOf(semaphore.Acquire(2, {.wait = wait})); });
      expect(wait, [&] {
        const std::chrono::milliseconds time(wait_ms);
        return Thrown([&] { (void)semaphore.try_acquire_for(time); });
      });
    }
    return punctuality.Within(kGrace);
  }
};

TEST_P(SemaphoreUnreachable, ServerIsNoLackOfPermits) {
  const auto semaphore = NewWarm();
  for (const How how : {How::kHangs, How::kIsDown}) {
    {
      const Outage outage(server(), how);
      ExpectUnreachable(*semaphore);
    }
    // Attempts to connect are held back.
    EXPECT_TRUE(Await([&] { return semaphore->Acquire(kCapacity).ok(); }));
  }
}

TEST_P(SemaphoreUnreachable, ServerIsNoLackOfPermitsForTheFirstCallOfAClientEither) {
  const auto cold = NewShort(NewClient());
  const auto other = NewShort(NewClient());
  {
    const Outage outage(server(), How::kHangs);
    EXPECT_EQ(CodeOf(other->Acquire(1, {.wait = absl::Milliseconds(30)})), kUnreachable);
    ExpectUnreachable(*cold);
  }
  EXPECT_OK(cold->Acquire(kCapacity));
}

TEST_P(SemaphoreUnreachable, ServerThatComesBackInTimeFailsNobodyWhoTries) {
  const auto semaphore = NewSemaphore(Conformance::NewClient("command_timeout=20s"));
  EXPECT_TRUE(GetsIn(*semaphore));
  for (const How how : {How::kHangs, How::kIsDown}) {
    std::optional<Outage> outage(std::in_place, server(), how);
    Crew crew;
    crew.Start([&] { EXPECT_OK(semaphore->TryAcquire(2)); });
    base::Parker().ParkUntil(base::Now() + absl::Milliseconds(300));
    outage.reset();
  }
}

TEST_P(SemaphoreUnreachable, ServerIsNoLackOfPermitsThoughThisClientHasThemAll) {
  const auto semaphore = NewSemaphore(NewClient());
  const auto all = Try(*semaphore, kCapacity);
  ASSERT_OK(all);
  {
    const Outage outage(server(), How::kHangs);
    EXPECT_EQ(CodeOf(semaphore->TryAcquire()), kUnreachable);
    EXPECT_TRUE(all->valid());
  }
}

TEST_P(SemaphoreUnreachable, ServerFailsCallsWithoutADeadlineAfterAWhile) {
  constexpr absl::Duration kGiveUp = absl::Milliseconds(200);
  const auto semaphore = NewWarm({.unreachable_after = kGiveUp});
  for (const How how : {How::kHangs, How::kIsDown}) {
    const Outage outage(server(), how);
    Punctuality punctuality;
    base::Instant give_up_at = base::Now() + kGiveUp;
    EXPECT_EQ(CodeOf(semaphore->Acquire(2)), kUnreachable);
    punctuality.Note(give_up_at);
    EXPECT_GE(base::Now(), give_up_at);
    give_up_at = base::Now() + kGiveUp;
    EXPECT_EQ(Thrown([&] { semaphore->acquire(); }), kUnreachable);
    punctuality.Note(give_up_at);
    EXPECT_TRUE(punctuality.Within(kGrace));
  }
  EXPECT_TRUE(Await([&] { return semaphore->Acquire(kCapacity).ok(); }));
}

TEST_P(SemaphoreUnreachable, ServerThatComesBackInTimeIsWaitedForByEveryThread) {
  const auto semaphore = NewWarm();
  for (const How how : {How::kHangs, How::kIsDown}) {
    std::optional<Outage> outage(std::in_place, server(), how);
    Crew crew;
    crew.Start(3, [&](int thread) { EXPECT_OK(semaphore->Acquire(1 + thread)); });
    crew.Start([&] {
      semaphore->acquire();
      semaphore->release();
    });
    EXPECT_EQ(CodeOf(semaphore->TryAcquire()), kUnreachable);
    outage.reset();
  }
}

TEST_P(SemaphoreUnreachable, ServerMayBeDownWhenAProgramStarts) {
  std::optional<Outage> outage(std::in_place, server(), How::kIsDown);
  const auto semaphore = NewShort(NewClient({.connect = ConnectPolicy::kLazy}));
  EXPECT_EQ(CodeOf(semaphore->TryAcquire()), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->SetCapacity(5)), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->available()), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->ForceRelease()), kUnreachable);
  Crew crew;
  crew.Start([&] { EXPECT_OK(semaphore->Acquire(2)); });
  outage.reset();
}

TEST_P(SemaphoreUnreachable, ServerDoesNotKeepACallFromBeingStopped) {
  const auto semaphore = NewWarm();
  {
    const Outage outage(server(), How::kHangs);
    std::stop_source stop;
    Waiter first(*semaphore, 1, {.stop = stop.get_token()});
    Waiter second(*semaphore, 2, {.stop = stop.get_token()});
    Punctuality punctuality;
    const base::Instant deadline = base::Now() + kTimeout;  // for the call that was sent already
    stop.request_stop();
    EXPECT_EQ(first.code(), kCancelled);
    EXPECT_EQ(second.code(), kCancelled);
    punctuality.Note(deadline);
    EXPECT_TRUE(punctuality.Within(kGrace));
  }
  EXPECT_OK(semaphore->Acquire(kCapacity));
}

TEST_P(SemaphoreUnreachable, ServerDelaysAReleaseNoLongerThanTheCommandTimeout) {
  const auto semaphore = NewSemaphore(NewClient(), {.lease = kPatience});
  auto released = Try(*semaphore);
  auto dropped = std::make_optional(*Try(*semaphore));
  semaphore->acquire();
  Punctuality punctuality;
  {
    const Outage outage(server(), How::kHangs);
    base::Instant deadline = base::Now() + kTimeout;
    EXPECT_EQ(CodeOf(released->Release()), kUnreachable);
    punctuality.Note(deadline);
    EXPECT_FALSE(released->valid());
    deadline = base::Now() + kTimeout;
    dropped.reset();
    punctuality.Note(deadline);
    deadline = base::Now() + kTimeout;
    const absl::StatusCode thrown = Thrown([&] { semaphore->release(); });
    EXPECT_TRUE(thrown == kOk || thrown == kUnreachable);
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitFree(*semaphore));  // by the background
  EXPECT_TRUE(Await([&] { return released->Release().ok(); }));
  EXPECT_EQ(Thrown([&] { semaphore->release(); }), kMisuse);
}

TEST_P(SemaphoreUnreachable, ServerDelaysReleaseOfManyAndDestructionNoLongerEither) {
  constexpr int64_t kMany = 20;
  const Client client = NewClient();
  auto semaphore = NewSemaphore(client, 2 * kMany);
  for (int i = 0; i < 2 * kMany; ++i) semaphore->acquire();
  Punctuality punctuality;
  {
    const Outage outage(server(), How::kHangs);
    base::Instant deadline = base::Now() + kTimeout;
    (void)Thrown([&] { semaphore->release(kMany); });
    punctuality.Note(deadline);
    deadline = base::Now() + kTimeout;
    semaphore.reset();
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitFree(*NewSemaphore(client, 2 * kMany), 2 * kMany));
}

TEST_P(SemaphoreUnreachable, ServerThatRestartsWithItsDataKeepsHoldsAndWaiters) {
  UseOwnServer({.append_only = true});
  const auto semaphore = NewSemaphore(NewClient());
  const auto theirs = NewSemaphore(NewClient());
  auto one = Try(*semaphore);
  auto two = Try(*semaphore, 2);
  ASSERT_OK(one);
  ASSERT_OK(two);
  Waiter waiter(*theirs, 2);
  ASSERT_TRUE(AwaitQueued(1));
  server().Restart();
  EXPECT_TRUE(one->valid() && two->valid());
  EXPECT_TRUE(Await([&] { return one->Release().ok(); }));
  EXPECT_TRUE(AwaitFree(*theirs, 1));
  EXPECT_FALSE(waiter.done());
  EXPECT_TRUE(Await([&] { return two->Release().ok(); }));
  EXPECT_OK(waiter.status());
  EXPECT_TRUE(AwaitFree(*theirs, kCapacity - 2));
}

TEST_P(SemaphoreUnreachable, ServerThatRestartsWithoutItsDataIsTheLossOfItsHolds) {
  const auto heard = std::make_shared<Recorder>();
  const auto semaphore = NewSemaphore(NewClient({.observer = heard}));
  const auto theirs = NewSemaphore(NewClient());
  auto two = Try(*semaphore, 2);
  semaphore->acquire();
  ASSERT_OK(two);
  const std::stop_token lost = two->lost();
  Waiter waiter(*theirs, 2);
  ASSERT_TRUE(AwaitQueued(1));
  server().Restart();
  EXPECT_OK(waiter.status());
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  EXPECT_TRUE(heard->Await("lost", 2));
  EXPECT_EQ(CodeOf(two->Release()), kLost);
  semaphore->release();
  EXPECT_TRUE(waiter.permit().valid());
  EXPECT_EQ(Free(*theirs), kCapacity - 2);
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreUnreachable);

}  // namespace
}  // namespace redlatch::conformance
