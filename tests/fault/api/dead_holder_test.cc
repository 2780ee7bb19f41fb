// A bar: whoever waits gets the lock of a holder that was killed when its lease is over, and 100 ms
// later at most.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/fault/api/any_kind.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/lock_keys.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

constexpr absl::Duration kHolderLease = absl::Seconds(2);
constexpr absl::Duration kGrace = absl::Milliseconds(100);

REDLATCH_CHILD(DoomedHolder) {
  support::AnyLock lock = MakeLock(args.at(1), *Client::Connect(args.at(0)), kHolderLease);
  lock.lock();
  parent.WriteLine("held");
  (void)parent.ReadLine(absl::Hours(1));
  return 0;
}

class DeadHolder : public ::testing::TestWithParam<std::string_view> {
 protected:
  bool AwaitQueued(int64_t waiters) {
    const std::string kind(GetParam() == "multi" ? "simple" : GetParam());
    const std::string suffix = kind == "read_write" ? "rw.writers" : kind + ".queue";
    const std::string queue = support::AuxiliaryKey("lock", suffix);
    return support::Await([&] { return server_->Integer({"ZCARD", queue}) == waiters; });
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};

// `phase`: how long the hold has lasted; a renewal moves the lease's end.
TEST_P(DeadHolder, IsFollowedByTheFirstWaiterWhenItsLeaseIsOver) {
  redis::Punctuality punctuality;
  for (absl::Duration phase : {absl::ZeroDuration(), absl::Milliseconds(600)}) {
    const auto holder =
        support::SpawnChild("DoomedHolder", {server_->url(), std::string(GetParam())});
    ASSERT_EQ(holder->pipe().ReadLine(), "held");
    std::atomic<int64_t> killed{0};
    std::thread waiter([&] {
      support::AnyLock lock = MakeLock(GetParam(), *Client::Connect(server_->url()), kHolderLease);
      const auto lease = lock.Acquire();
      const base::Instant now = base::Now();
      ASSERT_TRUE(lease.ok()) << lease.status();
      const base::Instant death = base::Instant::FromNanos(killed);
      punctuality.Note(death + kHolderLease);
      std::printf("%s after the holder's death\n", absl::FormatDuration(now - death).c_str());
    });
    EXPECT_TRUE(AwaitQueued(1));
    base::Parker().ParkUntil(base::Now() + phase);
    killed = base::Now().nanos();
    holder->Kill();
    waiter.join();
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_P(DeadHolder, IsFollowedByTheNextWhereTheFirstWaiterDiedToo) {
  redis::Punctuality punctuality;
  const std::string kind(GetParam());
  const auto holder = support::SpawnChild("DoomedHolder", {server_->url(), kind});
  ASSERT_EQ(holder->pipe().ReadLine(), "held");
  const auto first = support::SpawnChild("DoomedHolder", {server_->url(), kind});
  ASSERT_TRUE(AwaitQueued(1));
  std::atomic<int64_t> killed{0};
  std::thread waiter([&] {
    support::AnyLock lock = MakeLock(kind, *Client::Connect(server_->url()), kHolderLease);
    const auto lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    // It was not the head, so that it looks with a heartbeat.
    punctuality.Note(base::Instant::FromNanos(killed) + kHolderLease + kHolderLease / 3);
  });
  EXPECT_TRUE(AwaitQueued(2));
  killed = base::Now().nanos();
  first->Kill();
  holder->Kill();
  waiter.join();
  EXPECT_TRUE(punctuality.Within(kGrace));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeadHolder, ::testing::ValuesIn(kAllKinds),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace redlatch
