// Why there is a restart delay: servers that come back without what they had granted give another
// majority to somebody else, while the first lease is valid.
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/proxied_quorum.h"
#include "tests/support/quorum_group.h"

namespace redlatch {
namespace {

using support::Arrival;
using support::Await;
using support::Connect;

constexpr char kRestartName[] = "orders:42";
constexpr absl::Duration kRestartLease = absl::Seconds(2);
constexpr absl::Duration kRestartSoon = absl::Milliseconds(500);

class QuorumRestart : public ::testing::Test {
 protected:
  explicit QuorumRestart(std::string options) : options_(std::move(options)) {}

  // One client gets the lock from the first three servers of five; it does not reach the others.
  // Then it loses sight of the first one, too, which is started anew, without data.
  absl::StatusOr<Lease> HeldByThreeOfWhichOneForgets(RedLock& others) {
    EXPECT_TRUE(others.Acquire()->Release().ok());  // no server is new to them
    EXPECT_TRUE(Await([&] { return servers_.Having(kRestartName) == 0; }));
    proxies_[3].SetArrival(Arrival::kRefuse);
    proxies_[4].SetArrival(Arrival::kRefuse);
    RedLock lock(Connect(proxies_.url(options_)), kRestartName, {.lease = kRestartLease});
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(10)});
    EXPECT_EQ(servers_.Having(kRestartName), 3U);
    proxies_[0].SetArrival(Arrival::kRefuse);
    servers_[0].Kill();
    servers_[0].Restart();
    return lease;
  }

  const std::string options_;
  support::QuorumGroup servers_;
  support::ProxiedQuorum proxies_{servers_};
};

class WithoutADelay : public QuorumRestart {
 protected:
  WithoutADelay() : QuorumRestart("") {}
};

TEST_F(WithoutADelay, TwoHoldAtTheSameTime) {
  RedLock others(Connect(servers_.url(options_)), kRestartName, {.lease = kRestartLease});
  const absl::StatusOr<Lease> first = HeldByThreeOfWhichOneForgets(others);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<Lease> second = others.Acquire({.wait = kRestartSoon});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->valid());
  EXPECT_TRUE(first->valid());
  EXPECT_LT(first->fencing_token(), second->fencing_token()) << "a store refuses the first";
}

class WithADelay : public QuorumRestart {
 protected:
  WithADelay() : QuorumRestart("restart_delay=2200ms") {}
};

TEST_F(WithADelay, TheSecondGetsItWhenTheFirstLeaseIsOver) {
  RedLock others(Connect(servers_.url(options_)), kRestartName, {.lease = kRestartLease});
  const absl::StatusOr<Lease> first = HeldByThreeOfWhichOneForgets(others);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(others.Acquire({.wait = kRestartSoon}).status()));
  EXPECT_TRUE(first->valid());
  const absl::StatusOr<Lease> second = others.Acquire({.wait = absl::Seconds(10)});
  EXPECT_FALSE(first->valid());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_LT(first->fencing_token(), second->fencing_token());
}

// What came back from a file may be long over, and what was granted since is not in it.
TEST_F(WithADelay, AServerThatComesBackWithOldDataHasNoVoteEither) {
  RedLock others(Connect(servers_.url(options_)), kRestartName, {.lease = kRestartLease});
  EXPECT_TRUE(others.Acquire()->Release().ok());
  EXPECT_TRUE(Await([&] { return servers_.Having(kRestartName) == 0; }));
  EXPECT_EQ(servers_[0].Text({"SAVE"}), "OK");
  const absl::StatusOr<Lease> first = HeldByThreeOfWhichOneForgets(others);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(servers_[0].Integer({"EXISTS", "redlatch:quorum"}), 1) << "it has read its file";
  EXPECT_TRUE(absl::IsDeadlineExceeded(others.Acquire({.wait = kRestartSoon}).status()));
  EXPECT_TRUE(first->valid());
}

TEST_F(WithADelay, ALeaseThatIsLongerIsRefused) {
  RedLock lock(Connect(servers_.url(options_)), kRestartName, {.lease = absl::Seconds(3)});
  EXPECT_TRUE(absl::IsInvalidArgument(lock.TryAcquire().status()));
}

}  // namespace
}  // namespace redlatch
