// Processes that use a RedLock and are killed, frozen or forked.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/connect.h"
#include "tests/support/punctuality.h"
#include "tests/support/quorum_fixture.h"
#include "tests/support/subprocess.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;

constexpr absl::Duration kLongLease = absl::Seconds(30);
constexpr absl::Duration kTurn = absl::Milliseconds(100);

// With the URL, the name, and the lease in milliseconds.
REDLATCH_CHILD(QuorumHolder) {
  RedLock lock(*Client::Connect(args.at(0)), args.at(1),
               {.lease = absl::Milliseconds(std::stoi(args.at(2)))});
  const absl::StatusOr<Lease> lease = lock.Acquire();
  parent.WriteLine(lease.ok() ? "held" : lease.status().ToString());
  (void)parent.ReadLine(absl::Hours(1));
  return 0;
}

class ProcessOfAQuorum : public support::QuorumFixture {
 protected:
  std::unique_ptr<support::Child> Holder(absl::Duration lease) {
    return support::SpawnChild(
        "QuorumHolder", {servers_.url(), kName, std::to_string(absl::ToInt64Milliseconds(lease))});
  }
  void AwaitWaiting(int64_t waiters) {
    ASSERT_TRUE(Await([&] {
      const auto info = lock_.Inspect();
      return info.ok() && info->waiting == waiters;
    }));
  }

  const Client client_ = Connect(servers_.url());
  RedLock lock_{client_, kName, {.lease = kLongLease}};
};

TEST_F(ProcessOfAQuorum, OneThatIsKilledHoldsForTheLease) {
  constexpr absl::Duration kLease = absl::Milliseconds(600);
  const auto holder = Holder(kLease);
  ASSERT_EQ(holder->pipe().ReadLine(), "held");
  redis::Punctuality punctuality;
  holder->Kill();
  const base::Instant killed = base::Now();
  const absl::StatusOr<Lease> lease = lock_.Acquire({.wait = absl::Seconds(10)});
  punctuality.Note(killed + kLease);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(300)));
}

TEST_F(ProcessOfAQuorum, AFrozenWaiterWhoIsFirstEverywhereIsPassedOverInItsTurn) {
  absl::StatusOr<Lease> held = lock_.Acquire();
  ASSERT_TRUE(held.ok()) << held.status();
  const auto frozen = Holder(kLongLease);
  AwaitWaiting(1);
  frozen->Stop();
  redis::Punctuality punctuality;
  std::atomic<int64_t> released{0};
  std::thread live([&] {
    RedLock lock(Connect(servers_.url()), kName);
    const absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(20)});
    punctuality.Note(base::Instant::FromNanos(released) + kTurn);
    ASSERT_TRUE(lease.ok()) << lease.status();
  });
  AwaitWaiting(2);
  released = base::Now().nanos();
  EXPECT_TRUE(held->Release().ok());
  live.join();
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(100)));
  // It returns to its place when it goes on.
  frozen->Continue();
  EXPECT_EQ(frozen->pipe().ReadLine(absl::Seconds(20)), "held");
}

TEST_F(ProcessOfAQuorum, AForkedChildIsRefusedAndDisturbsNobody) {
  absl::StatusOr<Lease> held = lock_.Acquire();
  ASSERT_TRUE(held.ok()) << held.status();
  const auto child = support::Child::Fork([&](support::LinePipe&) {
    const absl::Status tried = lock_.TryAcquire().status();
    const absl::Status released = held->Release();
    return absl::IsFailedPrecondition(tried) && !released.ok() ? 0 : 1;
  });
  const auto ended = child->WaitFor(absl::Seconds(10));
  EXPECT_TRUE(ended && ended->success());
  EXPECT_TRUE(held->valid());
  EXPECT_EQ(servers_.Having(kName), 5U);
  EXPECT_TRUE(held->Release().ok());
  EXPECT_TRUE(lock_.Acquire({.wait = absl::Seconds(2)}).ok());
}

}  // namespace
}  // namespace redlatch
