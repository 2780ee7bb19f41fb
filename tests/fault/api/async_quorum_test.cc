// Acquisitions of a RedLock that no thread waits for, and servers that hang.
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/outcomes.h"
#include "tests/support/quorum_group.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using Leases = support::Outcomes<absl::StatusOr<Lease>>;

constexpr absl::Duration kLate = absl::Milliseconds(200);  // 50, and a machine that is busy

class AsyncQuorum : public ::testing::Test {
 protected:
  void Hang() {
    servers_[0].Stop();
    servers_[1].Stop();
  }
  void GoOn() {
    servers_[0].Continue();
    servers_[1].Continue();
  }

  support::QuorumGroup servers_{3};
  std::optional<Client> client_ =
      Connect(servers_.url("command_timeout=3s"), {.unreachable_after = absl::Seconds(10)});
  std::optional<RedLock> lock_{std::in_place, *client_, "lock"};
  Leases leases_;
};

TEST_F(AsyncQuorum, AShortWaitEndsInTimeThoughAnotherWaitsForServersThatHang) {
  ASSERT_TRUE(lock_->Acquire().ok());
  Hang();
  lock_->AcquireAsync({}, leases_.Callback());
  RedLock other(*client_, "other");
  Leases others;
  // The first round is under way by then, and has three seconds.
  other.AcquireAsync({.wait = absl::Milliseconds(100)}, others.Callback());
  EXPECT_FALSE(others.Take(0).ok());
  for (size_t i = 1; i <= 3; ++i) {
    const base::Instant began = base::Now();
    other.AcquireAsync({.wait = absl::Milliseconds(100)}, others.Callback());
    EXPECT_FALSE(others.Take(i).ok());
    EXPECT_GE(base::Now() - began, absl::Milliseconds(100));
    EXPECT_LE(base::Now() - began, absl::Milliseconds(100) + kLate);
  }
  GoOn();
  EXPECT_TRUE(leases_.Take().ok());
}

TEST_F(AsyncQuorum, CallbacksRunThoughARoundWaits) {
  ASSERT_TRUE(lock_->Acquire().ok());
  Hang();
  lock_->AcquireAsync({}, leases_.Callback());
  RedLock bad(*client_, "redlatch:bad");
  Leases refused;
  for (size_t i = 0; i < 20; ++i) {
    const base::Instant began = base::Now();
    bad.AcquireAsync({}, refused.Callback());
    EXPECT_EQ(refused.Take(i).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LE(base::Now() - began, kLate);
  }
  GoOn();
  EXPECT_TRUE(leases_.Take().ok());
}

TEST_F(AsyncQuorum, ClientMayGoWhileItsRoundWaits) {
  ASSERT_TRUE(lock_->Acquire().ok());
  Hang();
  constexpr size_t kCalls = 20;
  for (size_t i = 0; i < kCalls; ++i) lock_->AcquireAsync({}, leases_.Callback());
  lock_.reset();
  client_.reset();
  EXPECT_TRUE(leases_.Await(kCalls));
  for (size_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(leases_.Take(i).status().code(), absl::StatusCode::kCancelled);
  }
  GoOn();
  Client another = Connect(servers_.url());
  EXPECT_TRUE(RedLock(another, "lock").Acquire({.wait = absl::Seconds(60)}).ok());
}

// Callbacks that bring the next call, and one more that is cancelled at any moment.
TEST_F(AsyncQuorum, RaceOfGrantAndCancellationLeaksNothing) {
  for (size_t i = 0; i < 50; ++i) {
    std::stop_source stop;
    lock_->AcquireAsync({.stop = stop.get_token()}, leases_.Callback());
    if (i % 2 == 0) stop.request_stop();
    const absl::StatusOr<Lease> lease = leases_.Take(i);
    if (i % 2 != 0) {
      EXPECT_TRUE(lease.ok()) << lease.status();
    }
  }
  EXPECT_TRUE(Await([&] { return servers_.Having("lock") == 0; }));
}

}  // namespace
}  // namespace redlatch
