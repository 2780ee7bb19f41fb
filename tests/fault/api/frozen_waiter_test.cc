// A bar: a waiter that is frozen when its turn comes keeps the lock idle for its claim, not for its
// lease; so does one whose messages do not arrive.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "src/base/clock.h"
#include "tests/fault/api/any_kind.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

constexpr absl::Duration kFrozenLease = absl::Seconds(30);
constexpr absl::Duration kManualLease = absl::Seconds(40);

REDLATCH_CHILD(Frozen) {
  support::AnyLock lock = MakeLock(args.at(1), *Client::Connect(args.at(0)), kFrozenLease);
  AcquireOptions options;
  if (args.at(2) == "manual") options.lease = kManualLease;
  const auto lease = lock.Acquire(options);
  parent.WriteLine(lease.ok() ? "held" : lease.status().ToString());
  (void)parent.ReadLine(absl::Hours(1));
  return 0;
}

class FrozenWaiter : public ::testing::TestWithParam<std::string_view> {
 protected:
  void AwaitQueued(int64_t waiters) {
    ASSERT_TRUE(
        support::Await([&] { return holder_.Inspect()->waiting == waiters; }, absl::Seconds(20)));
  }

  // How long the lock is idle when it is released with so many frozen waiters before a live one.
  void IsIdleAtMost(absl::Duration bar, int frozen, const std::string& lease = "renewed") {
    redis::Punctuality punctuality;
    auto held = holder_.Acquire();
    ASSERT_TRUE(held.ok()) << held.status();
    std::vector<std::unique_ptr<support::Child>> children;
    for (int i = 0; i < frozen; ++i) {
      children.push_back(
          support::SpawnChild("Frozen", {server_->url(), std::string(GetParam()), lease}));
      AwaitQueued(i + 1);
      children.back()->Stop();
    }
    std::atomic<int64_t> released{0};
    std::thread live([&] {
      const Client client = *Client::Connect(server_->url());
      support::AnyLock lock = MakeLock(GetParam(), client, kFrozenLease);
      const auto got = lock.Acquire();
      const base::Instant now = base::Now();
      ASSERT_TRUE(got.ok()) << got.status();
      const base::Instant since = base::Instant::FromNanos(released);
      punctuality.Note(since + bar);
      std::printf("%d frozen: idle for %s\n", frozen, absl::FormatDuration(now - since).c_str());
    });
    AwaitQueued(frozen + 1);
    released = base::Now().nanos();
    EXPECT_TRUE(held->Release().ok());
    live.join();
    EXPECT_TRUE(punctuality.Within(absl::Milliseconds(50)));
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const Client client_ = *Client::Connect(server_->url());
  support::AnyLock holder_ = MakeLock(GetParam(), client_, kFrozenLease);
};

TEST_P(FrozenWaiter, KeepsTheLockIdleForItsClaim) { IsIdleAtMost(absl::Milliseconds(2500), 1); }

TEST_P(FrozenWaiter, GetsTheLockInItsTurnWhenItGoesOn) {
  auto held = holder_.Acquire();
  ASSERT_TRUE(held.ok());
  const auto child =
      support::SpawnChild("Frozen", {server_->url(), std::string(GetParam()), "renewed"});
  AwaitQueued(1);
  child->Stop();
  EXPECT_TRUE(held->Release().ok());
  auto again = holder_.Acquire({.wait = absl::Seconds(20)});  // after its claim
  ASSERT_TRUE(again.ok()) << again.status();
  child->Continue();
  AwaitQueued(1);
  EXPECT_TRUE(again->valid());
  EXPECT_TRUE(again->Release().ok());
  EXPECT_EQ(child->pipe().ReadLine(absl::Seconds(20)), "held");
}

INSTANTIATE_TEST_SUITE_P(Kinds, FrozenWaiter, ::testing::ValuesIn(kAllKinds),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace redlatch
