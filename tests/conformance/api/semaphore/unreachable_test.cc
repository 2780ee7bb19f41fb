// A server that hangs, is down or is not there yet: it is never taken for a semaphore without free
// permits. What it has in common with the locks: ../unreachable_test.cc.
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "tests/conformance/api/outage.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

class SemaphoreUnreachable : public WithOutages<SemaphoreConformance> {
 protected:
  // What is given up without an answer leaves a tombstone, for as long as its lease.
  static std::unique_ptr<Semaphore> NewShort(const Client& client) {
    return NewSemaphore(client, {.lease = kLease / 5});
  }
};

TEST_P(SemaphoreUnreachable, ServerThatComesBackInTimeFailsNobodyWhoTries) {
  const auto semaphore = NewSemaphore(ClientAt(url(), "command_timeout=20s"));
  EXPECT_TRUE(SoonGetsIn(*semaphore));
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

TEST_P(SemaphoreUnreachable, ServerFailsWhoAsksAboutIt) {
  const Outage outage(server(), How::kIsDown);
  const auto semaphore = NewShort(NewClient({.connect = ConnectPolicy::kLazy}));
  EXPECT_EQ(CodeOf(semaphore->SetCapacity(5)), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->available()), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->ForceRelease()), kUnreachable);
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
  EXPECT_EQ(Free(*theirs, kCapacity - 2), kCapacity - 2);
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreUnreachable);

}  // namespace
}  // namespace redlatch::conformance
