// What one step of a round of a RedLock leaves behind when it goes wrong at some of the servers.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/quorum_fixture.h"

namespace redlatch {
namespace {

using support::Arrival;
using support::Await;
using support::Connect;
using support::Direction;
using support::Scope;

class StepOfAQuorum : public support::QuorumFixture {
 protected:
  StepOfAQuorum() {
    // All have met all servers.
    for (RedLock* lock : {&mine_, &theirs_}) {
      const absl::StatusOr<Lease> lease = lock->Acquire();
      EXPECT_TRUE(lease.ok()) << lease.status();
      const size_t servers = lock == &mine_ ? 5 : 3;
      EXPECT_TRUE(Await([&] { return servers_.Having(kName) == servers; }));
    }
    EXPECT_TRUE(Await([&] { return servers_.Having(kName) == 0; }));
  }

  const Client all_ = Connect(proxies_.url());
  const Client three_ = Connect(of_three_.url());
  RedLock mine_{all_, kName};
  RedLock theirs_{three_, kName};
};

TEST_F(StepOfAQuorum, AGrantWhoseReplyIsLostIsReleasedWithTheOthers) {
  proxies_[2].CutAfter(Direction::kToClient, 0);
  absl::StatusOr<Lease> lease = mine_.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(Await([&] { return servers_.Having(kName) == 5; })) << "it was executed";
  EXPECT_TRUE(lease->Release().ok());
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(Forgets(i)) << i;
}

TEST_F(StepOfAQuorum, AMinoritysGrantsAreGivenBack) {
  const absl::StatusOr<Lease> theirs = theirs_.Acquire();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(mine_.TryAcquire().status()));
  for (const size_t i : {3, 4}) EXPECT_TRUE(Forgets(i)) << i;
  EXPECT_TRUE(theirs->valid());
}

TEST_F(StepOfAQuorum, AMinoritysGrantWhoseReplyIsLostIsGivenBackToo) {
  const absl::StatusOr<Lease> theirs = theirs_.Acquire();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  proxies_[3].CutAfter(Direction::kToClient, 0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(mine_.TryAcquire().status()));
  for (const size_t i : {3, 4}) EXPECT_TRUE(Forgets(i)) << i;
}

TEST_F(StepOfAQuorum, AWaitersGrantsOfAFailedRoundAreGivenBackToo) {
  const absl::StatusOr<Lease> theirs = theirs_.Acquire();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  std::thread waiter([&] {
    EXPECT_TRUE(absl::IsDeadlineExceeded(mine_.Acquire({.wait = absl::Seconds(1)}).status()));
  });
  for (const size_t i : {3, 4}) EXPECT_TRUE(Await([&] { return IsWaitedForAt(i); })) << i;
  EXPECT_TRUE(Await([&] { return !IsHeldAt(3) && !IsHeldAt(4); }));
  waiter.join();
  for (const size_t i : {3, 4}) EXPECT_TRUE(Forgets(i)) << i;
}

TEST_F(StepOfAQuorum, AnAttemptThatArrivesLateIsNotGranted) {
  const absl::StatusOr<Lease> theirs = theirs_.Acquire();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  proxies_[3].Hold(Direction::kToServer, Scope::kExisting);
  EXPECT_TRUE(absl::IsDeadlineExceeded(mine_.TryAcquire().status()));
  // What gives it up comes over another connection, before it.
  EXPECT_TRUE(Await([&] {
    (void)mine_.TryAcquire();
    for (const std::string& key : servers_[3].LockKeys()) {
      if (key.find(".gone.") != std::string::npos) return true;
    }
    return false;
  }));
  const int clients = ClientsOf(3);
  proxies_[3].ReleaseHeld();
  EXPECT_TRUE(Await([&] { return ClientsOf(3) < clients; })) << "it has read all of that";
  EXPECT_TRUE(Forgets(3));
}

TEST_F(StepOfAQuorum, AForcedReleaseEndsWhatIsStillOnItsWay) {
  RedLock mine(all_, kName, {.lease = absl::Seconds(1)});
  for (const size_t i : {0, 1}) proxies_[i].Hold(Direction::kToServer);
  const absl::StatusOr<Lease> lease = mine.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  proxies_[2].Hold(Direction::kToClient);  // it does not hear of it
  EXPECT_TRUE(theirs_.ForceRelease().ok());
  for (const size_t i : {0, 1}) proxies_[i].ReleaseHeld();
  EXPECT_TRUE(Await([&] { return !lease->valid(); }, absl::Seconds(3)));
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(Forgets(i)) << i;
}

TEST_F(StepOfAQuorum, AWaiterWhoReachesTwoServersKeepsNobodyOut) {
  support::ProxiedQuorum few(servers_);
  const Client client = Connect(few.url());
  for (const size_t i : {0, 1, 2}) {
    few[i].SetArrival(Arrival::kRefuse);
    few[i].ResetAll();
  }
  std::atomic<bool> waits{true};
  std::thread waiter([&] {
    RedLock lock(client, kName);
    EXPECT_FALSE(lock.Acquire({.wait = absl::Seconds(4)}).ok());
    waits = false;
  });
  EXPECT_TRUE(Await([&] { return IsHeldAt(3) || IsWaitedForAt(3); }));
  const base::Instant began = base::Now();
  for (int i = 0; i < 50; ++i) {
    RedLock& lock = i % 2 == 0 ? mine_ : theirs_;
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(2)});
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(lease->Release().ok());
  }
  EXPECT_LT(base::Now() - began, absl::Seconds(2));
  EXPECT_TRUE(waits);
  waiter.join();
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(Forgets(i)) << i;
}

// The last server that it needs tells it so; those that it gave back have no more to say.
TEST_F(StepOfAQuorum, AWaiterIsToldByTheOnlyServerThatKeptItOut) {
  ASSERT_TRUE(mine_.Acquire()->Release().ok());
  const std::string ghost = "0123456789abcdef0123456789abcdef:1";
  servers_[2].Do({"SET", kName, ghost + " 1", "PX", "60000"});
  std::atomic<bool> got{false};
  std::thread waiter([&] {
    const absl::StatusOr<Lease> lease = theirs_.Acquire({.wait = absl::Seconds(20)});
    EXPECT_TRUE(lease.ok()) << lease.status();
    got = true;
  });
  EXPECT_TRUE(Await([&] { return IsWaitedForAt(0) && IsWaitedForAt(1) && IsWaitedForAt(2); }));
  const auto key = [](const std::string& suffix) { return support::AuxiliaryKey(kName, suffix); };
  servers_[2].Do({"EVAL", std::string(lua::kQuorumCancel.body), "6", kName, key("quorum.queue"),
                  key("quorum.waiters"), key("fence"), key("quorum.gone.ghost"), key("quorum.turn"),
                  ghost, "0", "1"});
  EXPECT_TRUE(Await([&] { return got.load(); }, absl::Seconds(2)));
  waiter.join();
}

TEST_F(StepOfAQuorum, AReleaseWaitsForNoServerThatHangs) {
  absl::StatusOr<Lease> lease = theirs_.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  for (const size_t i : {3, 4}) of_three_[i].SetArrival(Arrival::kServe);
  servers_[2].Stop();
  const base::Instant began = base::Now();
  const absl::Status released = lease->Release();
  EXPECT_LT(base::Now() - began, absl::Milliseconds(500));
  EXPECT_TRUE(released.ok()) << released;
  servers_[2].Continue();
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(Forgets(i)) << i;
}

// What they say comes when a majority has said that it is held, and nobody asks them any more.
TEST_F(StepOfAQuorum, ServersThatAnswerLastAreHealedToo) {
  RedLock lock(all_, "other", {.lease = absl::Seconds(1)});
  const absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(Await([&] { return servers_.Having("other") == 5; }));
  for (const size_t i : {3, 4}) {
    proxies_[i].Delay(Direction::kToClient, absl::Milliseconds(50));
    servers_[i].Command({"DEL", "other"});
  }
  EXPECT_TRUE(Await([&] { return servers_.Having("other") == 5; }, absl::Seconds(3)));
  EXPECT_TRUE(lease->valid());
}

TEST_F(StepOfAQuorum, AnExtendedHoldIsHealedForAsLongAsItStands) {
  RedLock lock(all_, "other", {.lease = absl::Seconds(2)});
  absl::StatusOr<Lease> lease = lock.Acquire({.lease = absl::Seconds(2)});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(lease->Extend(absl::Minutes(1)).ok());
  servers_[4].Kill();
  servers_[4].Restart();
  EXPECT_TRUE(Await([&] { return servers_[4].Integer({"PTTL", "other"}) > 50000; }));
  EXPECT_TRUE(lease->Release().ok());
  EXPECT_TRUE(Await([&] { return servers_.Having("other") == 0; }));
}

TEST_F(StepOfAQuorum, ServersWithoutAMajorityAreNotHealed) {
  RedLock lock(all_, "other", {.lease = absl::Seconds(1)});
  const absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(Await([&] { return servers_.Having("other") == 5; }));
  for (const size_t i : {0, 1, 2}) servers_[i].Kill();
  for (const size_t i : {0, 1, 2}) servers_[i].Restart();
  EXPECT_TRUE(Await([&] {
    for (const size_t i : {0, 1, 2}) {
      EXPECT_EQ(servers_[i].Integer({"EXISTS", "other"}), 0) << i;
    }
    return lease->lost().stop_requested();
  }));
}

}  // namespace
}  // namespace redlatch
