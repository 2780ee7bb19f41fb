// Waiting: how long, in what order it ends, and what stops it.
#include <atomic>
#include <memory>
#include <stop_token>

#include "gtest/gtest.h"
#include "tests/conformance/api/conformance.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

class WaitingTest : public Conformance {
 protected:
  // A lock that somebody else has, for as long as this test.
  void Occupy() {
    lease_.emplace(*NewAny(owner_)->Acquire());
    ASSERT_TRUE(lease_->valid());
  }
  // A call that may take so long takes it, and not much more.
  template <class Call>
  static void ExpectTakes(absl::Duration wait, Punctuality& punctuality, const Call& call) {
    const base::Instant deadline = base::Now() + wait;
    call();
    EXPECT_GE(base::Now(), deadline);
    punctuality.Note(deadline);
  }

  const Client owner_ = NewClient();
  const Client client_ = NewClient();
  const std::unique_ptr<support::AnyLock> lock_ = NewAny(client_);
  std::optional<support::AnyHold> lease_;
};

// Of whatever excludes others.
class Waiting : public WaitingTest {};
INSTANTIATE_FOR_ALL_THAT_EXCLUDE(Waiting);

TEST_P(Waiting, EndsWhenItsTimeIsUpNeverEarlyAndHardlyLate) {
  Occupy();
  Punctuality punctuality;
  Crew crew;
  for (const int wait_ms : {1, 20, 55, 90, 130}) {
    crew.Start([&, wait_ms] {
      ExpectTakes(absl::Milliseconds(wait_ms), punctuality, [&] {
        EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Milliseconds(wait_ms)})), kBusy);
      });
      ExpectTakes(absl::Milliseconds(wait_ms), punctuality,
                  [&] { EXPECT_FALSE(lock_->try_lock_for(std::chrono::milliseconds(wait_ms))); });
    });
  }
  crew.Join();
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_TRUE(lease_->valid());
}

TEST_P(Waiting, EndsInTimeForTheFirstCallOfAClientToo) {
  Occupy();
  Punctuality punctuality;
  for (int i = 0; i < 3; ++i) {
    const auto lock = NewAny(NewClient());
    ExpectTakes(absl::Milliseconds(10), punctuality,
                [&] { EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::Milliseconds(10)})), kBusy); });
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_P(Waiting, IsNotDoneByThoseWhoTry) {
  Occupy();
  Punctuality punctuality;
  const base::Instant deadline = base::Now();
  EXPECT_EQ(CodeOf(lock_->TryAcquire()), kBusy);
  punctuality.Note(deadline);
  EXPECT_EQ(CodeOf(Try(*lock_)), kBusy);
  EXPECT_EQ(CodeOf(lock_->Acquire({.wait = -absl::Seconds(1)})), kBusy);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
}

TEST_P(Waiting, LeavesNoPlaceInTheQueueWhenItEnds) {
  Occupy();
  EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Milliseconds(5)})), kBusy);
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_OK(lease_->Release());
  EXPECT_OK(Try(*NewAny(owner_)));
}

TEST_P(Waiting, EndsAsSoonAsTheLockIsReleased) {
  Occupy();
  base::Instant got;
  Crew crew;
  crew.Start([&] {
    const auto lease = lock_->Acquire({.wait = kPatience});
    got = base::Now();
    EXPECT_OK(lease);
  });
  ASSERT_TRUE(AwaitQueued(1));
  const base::Instant released = base::Now();
  EXPECT_OK(lease_->Release());
  crew.Join();
  EXPECT_LT(got - released, kLease / 6);  // no heartbeat was needed
}

TEST_P(Waiting, OfAThreadWhoseClientHoldsTheLockEndsWithTheRelease) {
  auto lease = lock_->Acquire();
  ASSERT_OK(lease);
  std::atomic<bool> started{false};
  Crew crew;
  crew.Start([&] {
    started = true;
    const auto mine = lock_->Acquire({.wait = kPatience});
    EXPECT_OK(mine);
  });
  EXPECT_TRUE(Await([&] { return started.load(); }));
  EXPECT_OK(lease->Release());
}

TEST_P(Waiting, IsPassedOverWhereItsTimeEndedBeforeTheRelease) {
  Occupy();
  EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Milliseconds(5)})), kBusy);
  Crew crew;
  const Client third = NewClient();
  crew.Start([&] { EXPECT_OK(NewAny(third)->Acquire({.wait = kPatience})); });
  EXPECT_TRUE(AwaitQueued(1));
  EXPECT_OK(lease_->Release());
}

TEST_P(Waiting, IsStoppedByItsStopToken) {
  Occupy();
  std::stop_source stop;
  base::Instant ended;
  Crew crew;
  crew.Start([&] {
    EXPECT_EQ(CodeOf(lock_->Acquire({.stop = stop.get_token()})), kCancelled);
    ended = base::Now();
  });
  ASSERT_TRUE(AwaitQueued(1));
  Punctuality punctuality;
  const base::Instant stopped = base::Now();
  stop.request_stop();
  crew.Join();
  punctuality.Note(stopped);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(Waiting, DoesNotBeginWhereItsStopTokenHasFired) {
  Occupy();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CodeOf(lock_->Acquire({.stop = stop.get_token()})), kCancelled);
  EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Seconds(5), .stop = stop.get_token()})),
            kCancelled);
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(Waiting, StoppedForOneThreadGoesOnForTheOthers) {
  Occupy();
  std::stop_source stop;
  Crew stopped;
  stopped.Start([&] { EXPECT_EQ(CodeOf(lock_->Acquire({.stop = stop.get_token()})), kCancelled); });
  ASSERT_TRUE(AwaitQueued(1));
  Crew crew;
  crew.Start(2, [&](int) { EXPECT_OK(lock_->Acquire({.wait = kPatience})); });
  stop.request_stop();
  stopped.Join();
  EXPECT_OK(lease_->Release());
}

TEST_P(Waiting, StoppedAfterItsEndDoesNotTouchTheHold) {
  std::stop_source stop;
  auto lease = lock_->Acquire({.stop = stop.get_token()});
  ASSERT_OK(lease);
  stop.request_stop();
  EXPECT_TRUE(lease->valid());
  EXPECT_FALSE(lease->lost().stop_requested());
  EXPECT_EQ(CodeOf(Try(*NewAny(owner_))), kBusy);
  EXPECT_OK(lease->Release());
}

class WaitingOfLocks : public WaitingTest {};
INSTANTIATE_CONFORMANCE(WaitingOfLocks);

TEST_P(WaitingOfLocks, EndsForAllThreadsOfAllClientsOneAfterTheOther) {
  Occupy();
  Protected shared;
  Crew crew;
  const Client others[] = {NewClient(), NewClient()};
  for (const Client& client : others) {
    crew.Start(3, [&](int) {
      const auto lock = NewLock(client);
      const auto lease = lock->Acquire({.wait = kPatience});
      ASSERT_OK(lease);
      shared.Touch(*lease);
    });
  }
  ASSERT_TRUE(AwaitQueued(2));
  EXPECT_OK(lease_->Release());
  crew.Join();
  EXPECT_EQ(shared.touches(), 6);
}

TEST_P(WaitingOfLocks, StoppedAtRandomLosesNoLockAndNoWaiter) {
  const Client others[] = {client_, owner_};
  Protected shared;
  std::atomic<int> cancelled{0};
  Crew crew;
  for (const Client& client : others) {
    crew.Start(2, [&](int) {
      const auto lock = NewLock(client, kName, LeaseOf(kLease / 10));  // tombstones stay so long
      for (int i = 0; i < support::Scaled(40); ++i) {
        std::stop_source stop;
        Crew stopper;
        stopper.Start([&] { stop.request_stop(); });
        const auto lease = lock->Acquire({.wait = kPatience, .stop = stop.get_token()});
        if (lease.ok()) {
          shared.Touch(*lease);
        } else {
          EXPECT_EQ(CodeOf(lease), kCancelled) << lease.status();
          ++cancelled;
        }
      }
    });
  }
  crew.Join();
  EXPECT_EQ(shared.touches() + cancelled, 4 * support::Scaled(40));
  EXPECT_OK(lock_->Acquire({.wait = kLease / 2}));
}

}  // namespace
}  // namespace redlatch::conformance
