// Waiting for permits: how long, what stops it, and what ends with the semaphore's objects.
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/punctuality.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

class SemaphoreWaiting : public SemaphoreOfThree {
 protected:
  // All are taken, for as long as this test.
  void Occupy() {
    taken_ = *Try(*theirs_, kCapacity);
    ASSERT_TRUE(taken_.valid());
  }
  Permit taken_;
};

TEST_P(SemaphoreWaiting, EndsWhenItsTimeIsUpNeverEarlyAndHardlyLate) {
  Occupy();
  Punctuality punctuality;
  Crew crew;
  for (const int wait_ms : {1, 20, 55, 90, 130}) {
    crew.Start([&, wait_ms] {
      const absl::Duration wait = absl::Milliseconds(wait_ms);
      for (int64_t permits = 1; permits <= kCapacity; ++permits) {
        const base::Instant deadline = base::Now() + wait;
        EXPECT_EQ(CodeOf(semaphore_->Acquire(permits, {.wait = wait})), kBusy);
        EXPECT_GE(base::Now(), deadline);
        punctuality.Note(deadline);
      }
    });
  }
  crew.Join();
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(SemaphoreWaiting, EndsInTimeForTheFirstCallOfAClientToo) {
  Occupy();
  Punctuality punctuality;
  for (int i = 0; i < 3; ++i) {
    const auto semaphore = NewSemaphore(NewClient());
    const base::Instant deadline = base::Now() + absl::Milliseconds(10);
    EXPECT_EQ(CodeOf(semaphore->Acquire(1, {.wait = absl::Milliseconds(10)})), kBusy);
    EXPECT_GE(base::Now(), deadline);
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_P(SemaphoreWaiting, IsNotDoneByThoseWhoTry) {
  Occupy();
  Punctuality punctuality;
  const base::Instant deadline = base::Now();
  const auto tried = semaphore_->TryAcquire();
  EXPECT_TRUE(CodeOf(tried) == kBusy || CodeOf(tried) == kUnreachable) << tried.status();
  punctuality.Note(deadline);
  EXPECT_EQ(CodeOf(Try(*semaphore_)), kBusy);
  EXPECT_EQ(CodeOf(Try(*semaphore_, kCapacity)), kBusy);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_EQ(Queued(), 0);
}

TEST_P(SemaphoreWaiting, LastsForManyLeases) {
  auto taken = theirs_->Acquire(kCapacity);
  ASSERT_OK(taken);
  const auto brief = NewSemaphore(client_, {.lease = absl::Milliseconds(60)});
  Waiter waiter(*brief, 2, {});
  ASSERT_TRUE(AwaitQueued(1));
  const auto record = [&] {
    const redis::Reply records = server().Command({"HVALS", Auxiliary("waiters")});
    return records.elements.empty() ? std::string() : records.elements[0].text;
  };
  for (int heartbeat = 0; heartbeat < 12; ++heartbeat) {
    const std::string before = record();
    EXPECT_TRUE(Await([&] { return record() != before; })) << "which says when it was written";
  }
  EXPECT_EQ(Queued(), 1);
  EXPECT_FALSE(waiter.done());
  EXPECT_OK(taken->Release());
  EXPECT_OK(waiter.status());
  EXPECT_TRUE(waiter.permit().valid());
}

TEST_P(SemaphoreWaiting, IsStoppedByItsStopToken) {
  Occupy();
  std::stop_source stop;
  Waiter stopped(*semaphore_, 2, {.stop = stop.get_token()});
  ASSERT_TRUE(AwaitQueued(1));
  Waiter other(*semaphore_);
  ASSERT_TRUE(AwaitQueued(2));
  Punctuality punctuality;
  const base::Instant at = base::Now();
  stop.request_stop();
  EXPECT_EQ(stopped.code(), kCancelled);
  punctuality.Note(base::Now() - (stopped.ended() - at));
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitQueued(1));
  EXPECT_OK(taken_.Release());
  EXPECT_OK(other.status());
}

TEST_P(SemaphoreWaiting, DoesNotBeginWhereItsStopTokenHasFired) {
  Occupy();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CodeOf(semaphore_->Acquire(1, {.stop = stop.get_token()})), kCancelled);
  EXPECT_EQ(CodeOf(semaphore_->Acquire(2, {.wait = kPatience, .stop = stop.get_token()})),
            kCancelled);
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(SemaphoreWaiting, StoppedAfterItsEndDoesNotTouchThePermits) {
  std::stop_source stop;
  auto permit = semaphore_->Acquire(2, {.stop = stop.get_token()});
  ASSERT_OK(permit);
  stop.request_stop();
  EXPECT_TRUE(permit->valid());
  EXPECT_FALSE(permit->lost().stop_requested());
  EXPECT_EQ(Free(*thirds_), kCapacity - 2);
  EXPECT_OK(permit->Release());
}

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
  EXPECT_EQ(Free(*thirds_), 0);
  last.reset();
  EXPECT_TRUE(AwaitFree(*thirds_, 2));
  EXPECT_TRUE(permit->valid());
  const auto again = NewSemaphore(client);
  EXPECT_EQ(Thrown([&] { again->release(); }), kMisuse) << "nothing is left of them";
  EXPECT_EQ(Free(*thirds_), 2);
  permit.reset();
  EXPECT_EQ(Free(*thirds_), kCapacity);
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

TEST_P(SemaphoreWaiting, StoppedAtRandomLosesNoPermitAndNoWaiter) {
  Room room(kCapacity);
  std::atomic<int> cancelled{0};
  const int turns = support::Scaled(40);
  Crew crew;
  for (const Client* client : {&client_, &other_}) {
    crew.Start(3, [&, client](int thread) {
      // Tombstones stay for so long.
      const auto semaphore = NewSemaphore(*client, {.lease = kLease / 10});
      for (int i = 0; i < turns; ++i) {
        std::stop_source stop;
        Crew stopper;
        stopper.Start([&] { stop.request_stop(); });
        const auto permit =
            semaphore->Acquire(1 + thread, {.wait = kPatience, .stop = stop.get_token()});
        if (permit.ok()) {
          room.Use(*permit);
        } else {
          EXPECT_EQ(CodeOf(permit), kCancelled) << permit.status();
          ++cancelled;
        }
      }
    });
  }
  crew.Join();
  EXPECT_EQ(room.uses() + cancelled, 6 * turns);
  EXPECT_OK(semaphore_->Acquire(kCapacity, {.wait = kLease / 2}));
}

INSTANTIATE_FOR_SEMAPHORE(SemaphoreWaiting);

}  // namespace
}  // namespace redlatch::conformance
