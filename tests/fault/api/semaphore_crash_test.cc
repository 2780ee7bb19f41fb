// Bars: permits of a process that is killed are free when its lease is over, and 100 ms at most
// later; one that waits and is killed or stopped holds nobody up for longer than it takes to see.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/semaphore.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

constexpr absl::Duration kPermitLease = absl::Seconds(1);
constexpr absl::Duration kPermitGrace = absl::Milliseconds(100);
constexpr absl::Duration kPermitPatience = absl::Seconds(10);
constexpr int64_t kPermitCapacity = 4;

// Whoever waits asks anew each third of its lease, and is passed over when 2.5 of these are missed.
absl::Duration Heartbeat() { return kPermitLease / 3; }
absl::Duration Overdue() { return 2.5 * Heartbeat(); }

std::unique_ptr<Semaphore> MakeSemaphore(const std::string& url) {
  return std::make_unique<Semaphore>(*Client::Connect(url), "permits", kPermitCapacity,
                                     SemaphoreOptions{.lease = kPermitLease});
}

// Has so many permits until it is told to go, or to tell what has become of them.
REDLATCH_CHILD(PermitHolder) {
  const auto semaphore = MakeSemaphore(args.at(0));
  absl::StatusOr<Permit> permit = semaphore->Acquire(std::stoll(args.at(1)));
  EXPECT_TRUE(permit.ok()) << permit.status();
  parent.WriteLine("held");
  (void)parent.ReadLine(absl::Hours(1));
  const bool valid = permit->valid();
  parent.WriteLine(valid ? "valid" : "lost");
  parent.WriteLine(absl::StatusCodeToString(permit->Release().code()));
  return 0;
}

class SemaphoreCrash : public ::testing::Test {
 protected:
  std::unique_ptr<support::Child> Spawn(int64_t permits) {
    return support::SpawnChild("PermitHolder", {server_->url(), absl::StrCat(permits)});
  }
  std::unique_ptr<support::Child> SpawnHolder(int64_t permits) {
    auto child = Spawn(permits);
    EXPECT_EQ(child->pipe().ReadLine(), "held");
    return child;
  }
  static void Dismiss(support::Child& child) {
    child.pipe().WriteLine("go");
    EXPECT_EQ(child.pipe().ReadLine(), "valid");
    EXPECT_EQ(child.pipe().ReadLine(), "OK");
    EXPECT_TRUE(child.Wait().success());
  }
  static base::Instant Kill(support::Child& child) {
    const base::Instant now = base::Now();
    child.Kill();
    return now;
  }

  bool Await(const std::function<bool(const LockInfo&)>& condition) {
    return support::Await([&] {
      const absl::StatusOr<LockInfo> info = semaphore_->Inspect();
      return info.ok() && condition(*info);
    });
  }
  bool AwaitWaiting(int64_t waiters) {
    return Await([=](const LockInfo& info) { return info.waiting == waiters; });
  }
  // Until the server has read that a process's connections are closed.
  bool AwaitListeners(size_t clients) {
    return support::Await([&] {
      return server_->Command({"PUBSUB", "CHANNELS", "*"}).elements.size() <= clients;
    });
  }
  // The permits that holders have at the server: what must never be exceeded.
  int64_t Taken() {
    const absl::StatusOr<LockInfo> info = semaphore_->Inspect();
    EXPECT_TRUE(info.ok()) << info.status();
    int64_t taken = 0;
    for (const LockInfo::Party& holder : info->holders) taken += holder.permits;
    EXPECT_LE(taken, kPermitCapacity);
    return taken;
  }

  // Somebody who waits, in a thread and with a client of its own, and keeps what it gets.
  class Waiter {
   public:
    Waiter(const std::string& url, int64_t permits)
        : semaphore_(MakeSemaphore(url)), thread_([this, permits] {
            permit_ = semaphore_->Acquire(permits, {.wait = kPermitPatience});
            entered_ = base::Now();
            EXPECT_TRUE(permit_.ok()) << permit_.status();
          }) {}
    ~Waiter() { Join(); }

    // When it got in.
    base::Instant Join() {
      if (thread_.joinable()) thread_.join();
      return entered_;
    }
    void Leave() {
      Join();
      EXPECT_TRUE(permit_.ok() && permit_->Release().ok());
    }

   private:
    const std::unique_ptr<Semaphore> semaphore_;
    absl::StatusOr<Permit> permit_;
    base::Instant entered_;
    std::thread thread_;
  };

  void ExpectBy(base::Instant bound, base::Instant entered) {
    const absl::Duration late = entered - bound;
    punctuality_.Note(base::Now() - late);
    EXPECT_TRUE(punctuality_.Within(kPermitGrace));
    std::printf("in %s after the bound\n", absl::FormatDuration(late).c_str());
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const std::unique_ptr<Semaphore> semaphore_ = MakeSemaphore(server_->url());
  redis::Punctuality punctuality_;
};

TEST_F(SemaphoreCrash, OfTheOnlyHolderFreesItsPermitsWhenItsLeaseIsOver) {
  const auto victim = SpawnHolder(kPermitCapacity);
  Waiter first(server_->url(), 3);
  ASSERT_TRUE(AwaitWaiting(1));
  Waiter second(server_->url(), 1);
  ASSERT_TRUE(AwaitWaiting(2));
  base::Parker().ParkUntil(base::Now() + kPermitLease / 2);  // a renewal moves the end of a lease
  const base::Instant killed = Kill(*victim);
  ExpectBy(killed + kPermitLease, std::max(first.Join(), second.Join()));
  EXPECT_EQ(Taken(), kPermitCapacity);
}

TEST_F(SemaphoreCrash, OfAHolderIsNoticedThoughOthersGoOnAndRenew) {
  const auto other = SpawnHolder(1);
  const auto victim = SpawnHolder(2);
  const auto third = SpawnHolder(1);
  Waiter waiter(server_->url(), 2);
  ASSERT_TRUE(AwaitWaiting(1));
  const base::Instant killed = Kill(*victim);
  ExpectBy(killed + kPermitLease, waiter.Join());
  EXPECT_EQ(Taken(), kPermitCapacity);
  Dismiss(*other);
  Dismiss(*third);
}

TEST_F(SemaphoreCrash, OfHoldersOneAfterTheOtherGathersTheirPermits) {
  const auto first = SpawnHolder(2);
  const auto second = SpawnHolder(2);
  Waiter waiter(server_->url(), kPermitCapacity);
  ASSERT_TRUE(AwaitWaiting(1));
  (void)Kill(*first);
  base::Parker().ParkUntil(base::Now() + kPermitLease / 2);
  const base::Instant killed = Kill(*second);
  ExpectBy(killed + kPermitLease, waiter.Join());
}

TEST_F(SemaphoreCrash, OfAHolderFreesItsPermitsForWhoeverTriesThen) {
  const auto victim = SpawnHolder(3);
  const base::Instant killed = Kill(*victim);
  EXPECT_TRUE(Await([](const LockInfo& info) { return info.used == 0; }));
  ExpectBy(killed + kPermitLease, base::Now());
  EXPECT_TRUE(semaphore_->Acquire(kPermitCapacity, {.wait = kPermitGrace}).ok());
}

// Nothing happens at the server that would tell: those behind it ask.
TEST_F(SemaphoreCrash, OfAWaiterAtTheHeadHoldsThoseBehindItUpUntilTheyAskNext) {
  const auto holder = SpawnHolder(kPermitCapacity - 1);
  const auto victim = Spawn(kPermitCapacity);
  ASSERT_TRUE(AwaitWaiting(1));
  Waiter behind(server_->url(), 1);
  ASSERT_TRUE(AwaitWaiting(2));
  const base::Instant killed = Kill(*victim);
  ExpectBy(killed + Heartbeat(), behind.Join());
  Dismiss(*holder);
}

TEST_F(SemaphoreCrash, OfAWaiterAtTheHeadHoldsUpNobodyWhoComesLater) {
  const auto holder = SpawnHolder(kPermitCapacity - 1);
  const auto victim = Spawn(kPermitCapacity);
  ASSERT_TRUE(AwaitWaiting(1));
  victim->Kill();
  ASSERT_TRUE(AwaitListeners(2));
  EXPECT_TRUE(semaphore_->Acquire(1, {.wait = kPermitGrace}).ok());
  Dismiss(*holder);
}

TEST_F(SemaphoreCrash, OfAWaiterAtTheHeadIsPassedOverByTheNextRelease) {
  const auto holder = SpawnHolder(kPermitCapacity);
  const auto victim = Spawn(kPermitCapacity);
  ASSERT_TRUE(AwaitWaiting(1));
  Waiter behind(server_->url(), 2);
  ASSERT_TRUE(AwaitWaiting(2));
  victim->Kill();
  ASSERT_TRUE(AwaitListeners(3));
  const base::Instant released = base::Now();
  Dismiss(*holder);
  ExpectBy(released, behind.Join());
}

// A permit each that is granted to the dead comes back with its lease.
TEST_F(SemaphoreCrash, OfWaitersAndHoldersAtATimeLosesNoPermit) {
  std::vector<std::unique_ptr<support::Child>> victims;
  for (int i = 0; i < 2; ++i) victims.push_back(SpawnHolder(2));
  for (int i = 0; i < 4; ++i) {
    victims.push_back(Spawn(1 + i));
    ASSERT_TRUE(AwaitWaiting(i + 1));
  }
  Waiter last(server_->url(), kPermitCapacity);
  ASSERT_TRUE(AwaitWaiting(5));
  for (const auto& victim : victims) victim->Signal(SIGKILL);
  const base::Instant killed = base::Now();
  ExpectBy(killed + kPermitLease + Heartbeat(), last.Join());
  last.Leave();
  EXPECT_EQ(Taken(), 0);
}

class SemaphoreStop : public SemaphoreCrash {};

TEST_F(SemaphoreStop, OfAWaiterAtTheHeadHoldsThoseBehindItUpUntilItIsOverdue) {
  const auto holder = SpawnHolder(kPermitCapacity - 1);
  const auto stopped = Spawn(kPermitCapacity);
  ASSERT_TRUE(AwaitWaiting(1));
  Waiter behind(server_->url(), 1);
  ASSERT_TRUE(AwaitWaiting(2));
  const base::Instant at = base::Now();
  stopped->Stop();
  ExpectBy(at + Overdue() + Heartbeat(), behind.Join());
  // It has lost its turn, not its place.
  stopped->Continue();
  EXPECT_TRUE(AwaitWaiting(1));
  behind.Leave();
  Dismiss(*holder);
  EXPECT_EQ(stopped->pipe().ReadLine(), "held");
  Dismiss(*stopped);
}

// Granted while it cannot hear: those permits are nobody's until their lease is over.
TEST_F(SemaphoreStop, OfAWaiterThatIsGrantedMeanwhileLosesNoPermit) {
  auto taken = semaphore_->Acquire(kPermitCapacity);
  ASSERT_TRUE(taken.ok());
  const auto stopped = Spawn(2);
  ASSERT_TRUE(AwaitWaiting(1));
  stopped->Stop();
  EXPECT_TRUE(taken->Release().ok());
  const base::Instant granted = base::Now();
  EXPECT_EQ(Taken(), 2);
  Waiter waiter(server_->url(), kPermitCapacity);
  ExpectBy(granted + kPermitLease, waiter.Join());
  EXPECT_EQ(Taken(), kPermitCapacity);
  stopped->Continue();
  EXPECT_TRUE(AwaitWaiting(1)) << "it asks anew";
  waiter.Leave();
  EXPECT_EQ(stopped->pipe().ReadLine(), "held");
  Dismiss(*stopped);
}

TEST_F(SemaphoreStop, OfAHolderForLongerThanItsLeaseIsALossThatIsToldOnWaking) {
  const auto stopped = SpawnHolder(3);
  stopped->Stop();
  const base::Instant at = base::Now();
  auto all = semaphore_->Acquire(kPermitCapacity, {.wait = kPermitPatience});
  ASSERT_TRUE(all.ok());
  ExpectBy(at + kPermitLease, base::Now());
  stopped->pipe().WriteLine("tell");
  stopped->Continue();
  EXPECT_EQ(stopped->pipe().ReadLine(), "lost");
  EXPECT_EQ(stopped->pipe().ReadLine(), "ABORTED");
  EXPECT_TRUE(stopped->Wait().success());
  EXPECT_TRUE(all->valid());
  EXPECT_EQ(Taken(), kPermitCapacity);
}

}  // namespace
}  // namespace redlatch
