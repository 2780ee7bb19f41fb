// Client::Stats(): each number moves when it should, by as much as it should, and no other does.
#include "redlatch/stats.h"

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"
#include "tests/conformance/api/stats/matcher.h"
#include "tests/support/subprocess.h"

namespace redlatch::conformance {
namespace {

using ::testing::IsEmpty;

class Stats : public Conformance {
 protected:
  LockStats Of(std::string_view name = kName) { return StatsOf(client_, Called(name)); }
  bool AwaitWaitingHere(uint64_t calls) {
    return Await([&] { return Of().waiting == calls; });
  }

  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  const Client client_ = NewClient("command_timeout=200ms", {.observer = heard_});
  const Client other_ = NewClient();
  const std::unique_ptr<RedisLockBase> lock_ = NewLock(client_);
};

TEST_P(Stats, ClientThatHasUsedNoLockHasNone) {
  const ClientStats stats = client_.Stats();
  EXPECT_THAT(stats.locks, IsEmpty());
  EXPECT_THAT(stats.all, Counts({}));
  EXPECT_EQ(stats.server, client_.server());
  EXPECT_EQ(stats.id.size(), 32);
  EXPECT_NE(stats.id, other_.Stats().id);
  EXPECT_EQ(stats.connects, server().size());
  EXPECT_EQ(stats.breaks + stats.reconnects, 0);
}

TEST_P(Stats, NameIsTheUrls) {
  EXPECT_EQ(client_.Stats().name, "");
  EXPECT_EQ(NewClient("name=billing").Stats().name, "billing");
}

TEST_P(Stats, HoldIsCountedWhenItBeginsAndWhenItEnds) {
  auto lease = lock_->Acquire();
  ASSERT_OK(lease);
  EXPECT_THAT(Of(), Counts({.acquired = 1, .held = 1}));
  EXPECT_OK(lease->Release());
  EXPECT_THAT(Of(), Counts({.acquired = 1, .released = 1}));
  lock_->lock();
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 1, .held = 1}));
  lock_->unlock();
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 2}));
  EXPECT_OK(lease->Release());  // once more is no other release
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 2}));
}

TEST_P(Stats, DurationsAreThoseOfTheWaitAndOfTheHold) {
  constexpr absl::Duration kWait = absl::Milliseconds(60);
  std::optional<Lease> theirs = *NewLock(other_)->Acquire();
  base::Instant called;
  std::optional<Lease> lease;
  Crew crew;
  crew.Start([&] {
    called = base::Now();
    lease = *lock_->Acquire({.wait = kPatience});
  });
  ASSERT_TRUE(AwaitWaitingHere(1));
  EXPECT_THAT(Of(), Counts({.waiting = 1}));
  base::Parker().ParkUntil(base::Now() + kWait);
  theirs.reset();
  crew.Join();
  const base::Instant held = base::Now();
  EXPECT_GE(Of().waited.sum, kWait);
  EXPECT_LE(Of().waited.sum, held - called);
  base::Parker().ParkUntil(held + kWait);
  EXPECT_OK(lease->Release());
  EXPECT_GE(Of().held_for.sum, kWait);
  EXPECT_LE(Of().held_for.sum, base::Now() - called);
  EXPECT_GE(Of().held_for.Quantile(1), kWait);
}

TEST_P(Stats, CallsThatEndWithoutTheLockAreCountedByTheirReason) {
  const auto theirs = NewLock(other_)->Acquire();
  ASSERT_OK(theirs);
  EXPECT_EQ(CodeOf(Try(*lock_)), kBusy);
  EXPECT_EQ(Of().busy, 1);
  EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Milliseconds(100)})), kBusy);
  EXPECT_EQ(Of().busy, 2);
  std::stop_source stop;
  Crew crew;
  crew.Start([&] { EXPECT_EQ(CodeOf(lock_->Acquire({.stop = stop.get_token()})), kCancelled); });
  ASSERT_TRUE(AwaitWaitingHere(1));
  stop.request_stop();
  crew.Join();
  EXPECT_EQ(Of().cancelled, 1);
  EXPECT_EQ(Of().waiting, 0);
  EXPECT_EQ(Of().acquired, 0);
  EXPECT_EQ(Of().waited.count(), 0);
}

TEST_P(Stats, CallThatEndsWithItsObjectIsCancelled) {
  const auto theirs = NewLock(other_)->Acquire();
  ASSERT_OK(theirs);
  auto short_lived = NewLock(client_);
  Crew crew;
  crew.Start([&, lock = short_lived.get()] {
    EXPECT_EQ(CodeOf(lock->Acquire({.wait = kPatience})), kCancelled);
  });
  ASSERT_TRUE(AwaitWaitingHere(1));
  short_lived.reset();
  crew.Join();
  EXPECT_THAT(Of(), Counts({.cancelled = 1}));
}

TEST_P(Stats, UnreachableServerIsAFailureAndNotBusy) {
  UseOwnServer();
  const Client client = NewClient("command_timeout=200ms&connect_timeout=200ms");
  const auto lock = NewLock(client, kName, LeaseOf(kLease / 5));
  EXPECT_OK(Try(*lock));
  const uint64_t before = StatsOf(client, Called()).failed;  // of a slow machine
  server().Stop();
  EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable);
  EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::Milliseconds(10)})), kUnreachable);
  server().Continue();
  const LockStats stats = StatsOf(client, Called());
  EXPECT_EQ(stats.failed - before, 2);
  EXPECT_EQ(stats.busy, 0);
  EXPECT_GE(client.Stats().late, 2);
}

TEST_P(Stats, RenewalsAreCounted) {
  const auto lock = NewLock(client_, kName, LeaseOf(absl::Milliseconds(300)));
  auto lease = lock->Acquire();
  ASSERT_OK(lease);
  ASSERT_TRUE(heard_->Await("renewed", 2));
  EXPECT_GE(Of().renewed, 2);
  EXPECT_EQ(Of().renewals_failed, 0);
  EXPECT_OK(lease->Release());
}

TEST_P(Stats, LossByForceEndsTheHoldAndIsNoRelease) {
  auto lease = lock_->Acquire();
  ASSERT_OK(lease);
  EXPECT_OK(NewLock(other_)->ForceRelease());
  ASSERT_TRUE(heard_->Await("lost"));
  EXPECT_THAT(Of(), Counts({.acquired = 1, .lost = 1}));
  EXPECT_EQ(Of().held_for.count(), 1);
  EXPECT_EQ(CodeOf(lease->Release()), kLost);
  EXPECT_THAT(Of(), Counts({.acquired = 1, .lost = 1}));
}

TEST_P(Stats, RenewalsThatFailAreCountedUntilTheHoldIsLost) {
  UseOwnServer();
  const auto heard = std::make_shared<Recorder>();
  const Client client = NewClient("command_timeout=200ms", {.observer = heard});
  const auto lock = NewLock(client, kName, LeaseOf(absl::Milliseconds(600)));
  auto lease = Try(*lock);
  ASSERT_OK(lease);
  server().Stop();
  ASSERT_TRUE(heard->Await("at risk"));
  EXPECT_GE(StatsOf(client, Called()).renewals_failed, 1);
  ASSERT_TRUE(heard->Await("lost"));
  server().Continue();
  const LockStats stats = StatsOf(client, Called());
  EXPECT_EQ(stats.lost, 1);
  EXPECT_EQ(stats.held, 0);
}

TEST_P(Stats, ThreadsThatPassALockOnAskTheServerForFewOfTheirHolds) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  LockOptions options = Options();
  options.local_window = absl::Seconds(1);
  const auto lock = NewLock(client_, kName, options);
  Crew crew;
  crew.Start(kThreads, [&](int) {
    for (int i = 0; i < kRounds; ++i) {
      lock->lock();
      std::this_thread::yield();
      lock->unlock();
    }
  });
  crew.Join();
  const LockStats stats = Of();
  EXPECT_EQ(stats.acquired, kThreads * kRounds);
  EXPECT_EQ(stats.released, kThreads * kRounds);
  EXPECT_EQ(stats.held + stats.waiting, 0);
  EXPECT_EQ(stats.waited.count(), stats.acquired);
  EXPECT_EQ(stats.held_for.count(), stats.released);
  EXPECT_LT(stats.passed_on, stats.acquired);
  EXPECT_EQ(client_.Stats().all.passed_on, stats.passed_on);
}

TEST_P(Stats, HoldThatAThreadOfTheClientPassesToTheNextIsPassedOn) {
  LockOptions options = Options();
  options.local_window = absl::Seconds(10);
  const auto lock = NewLock(client_, kName, options);
  auto first = lock->Acquire();
  ASSERT_OK(first);
  Crew crew;
  crew.Start(2, [&](int) { EXPECT_OK(lock->Acquire({.wait = kPatience})); });
  ASSERT_TRUE(AwaitWaitingHere(2));
  // The release brings a hold for one of them, with tokens for more, and that one passes it on.
  EXPECT_OK(first->Release());
  crew.Join();
  EXPECT_THAT(Of(), Counts({.acquired = 3, .passed_on = 1, .released = 3}));
}

TEST_P(Stats, TakingItAgainIsNoHoldOfItsOwn) {
  if (!GetParam().kind.reentrant) return;
  lock_->lock();
  lock_->lock();
  auto lease = lock_->Acquire();
  ASSERT_OK(lease);
  EXPECT_THAT(Of(), Counts({.acquired = 1, .held = 1}));
  EXPECT_OK(lease->Release());
  lock_->unlock();
  EXPECT_THAT(Of(), Counts({.acquired = 1, .held = 1}));
  lock_->unlock();
  EXPECT_THAT(Of(), Counts({.acquired = 1, .released = 1}));
}

TEST_P(Stats, OwnersOfALockAreCountedByItsName) {
  if (!GetParam().kind.reentrant) return;
  for (const char* owner : {"ada", "grace"}) {
    EXPECT_OK(lock_->Acquire({.wait = kPatience, .owner = Owner(owner)}));
  }
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 2}));
}

TEST_P(Stats, MisuseIsCounted) {
  lock_->unlock();
  EXPECT_THAT(Of(), Counts({.misused = 1}));
  EXPECT_EQ(heard_->Count("misuse"), 1);
}

TEST_P(Stats, NumbersOutliveTheLockObjects) {
  for (int i = 1; i <= 3; ++i) {
    EXPECT_OK(NewLock(client_)->Acquire({.wait = kPatience}));
    EXPECT_THAT(
        Of(), Counts({.acquired = static_cast<uint64_t>(i), .released = static_cast<uint64_t>(i)}));
  }
}

TEST_P(Stats, HoldThatGoesWithItsLockObjectIsReleased) {
  auto short_lived = NewLock(client_);
  short_lived->lock();
  short_lived.reset();
  EXPECT_TRUE(Await([&] { return Of().releasing == 0; }));
  EXPECT_THAT(Of(), Counts({.acquired = 1, .released = 1}));
}

TEST_P(Stats, ReconnectionsAreCounted) {
  auto lease = lock_->Acquire();
  ASSERT_OK(lease);
  server().Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(Await([&] { return client_.Ping().ok() && heard_->Count("reconnected") > 0; }));
  const ClientStats stats = client_.Stats();
  EXPECT_GE(stats.breaks, 1);
  EXPECT_GE(stats.connects, 2);
  EXPECT_GE(stats.reconnects, 1);
  EXPECT_TRUE(Await([&] { return lease->Release().ok(); }));
}

TEST_P(Stats, MayBeTakenWhileOthersWork) {
  const auto beside = NewLock(client_, "beside");
  std::atomic<bool> done{false};
  Crew reader;
  reader.Start([&] {
    uint64_t before = 0;
    while (!done) {
      const ClientStats stats = client_.Stats();
      EXPECT_GE(stats.all.acquired, before) << "it only grows";
      EXPECT_EQ(stats.all.acquired, stats.all.released + stats.all.releases_failed +
                                        stats.all.lost + stats.all.held + stats.all.releasing);
      before = stats.all.acquired;
    }
  });
  Crew crew;
  crew.Start(4, [&](int i) {
    for (int round = 0; round < support::Scaled(100); ++round) {
      (i % 2 == 0 ? lock_ : beside)->lock();
      (i % 2 == 0 ? lock_ : beside)->unlock();
      EXPECT_OK(Try(client_, absl::StrCat("passing:", i)));
    }
  });
  crew.Join();
  done = true;
  reader.Join();
  const ClientStats stats = client_.Stats();
  EXPECT_EQ(stats.all.acquired, 8 * support::Scaled(100));
  EXPECT_EQ(stats.all.held + stats.all.waiting, 0);
}

TEST_P(Stats, AreEmptyInAForkedChildThoughALockIsInUseThere) {
  lock_->lock();
  auto child = support::Child::Fork([&](support::LinePipe&) {
    const ClientStats stats = client_.Stats();
    EXPECT_EQ(stats.server, client_.server());
    EXPECT_THAT(stats.locks, IsEmpty());
    EXPECT_EQ(stats.all.acquired + stats.connects, 0);
    return HasFailure() ? 1 : 0;
  });
  const auto status = child->WaitFor(kPatience);
  ASSERT_TRUE(status.has_value()) << "it hangs";
  EXPECT_EQ(status->signal + status->code, 0);
  lock_->unlock();
  EXPECT_THAT(Of(), Counts({.acquired = 1, .released = 1}));
}

INSTANTIATE_FOR_KINDS(Stats);

}  // namespace
}  // namespace redlatch::conformance
