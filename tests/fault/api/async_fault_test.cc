// Acquisitions that no thread waits for, and a server that is killed, hangs, forgets its scripts or
// is cut off; and a process that forks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/outcomes.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using Leases = support::Outcomes<absl::StatusOr<Lease>>;
using Statuses = support::Outcomes<absl::Status>;

class AsyncFault : public ::testing::Test {
 protected:
  bool AwaitWaiting(const Client& client, uint64_t count) {
    return Await([&] { return client.Stats().all.waiting == count; });
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  support::TcpProxy proxy_{{.port = server_->port()}};
  Client client_ = Connect(proxy_.url(), {.unreachable_after = absl::Seconds(5)});
  SimpleLock lock_{client_, "lock", {.lease = absl::Seconds(2)}};
  Leases leases_;
  Statuses statuses_;
};

TEST_F(AsyncFault, StopEndsACallWithAnUnansweredRequest) {
  Client patient = Connect(proxy_.url() + "?command_timeout=1m");
  SimpleLock lock(patient, "lock");
  ASSERT_TRUE(lock.Acquire().ok());  // so it is connected
  std::stop_source stop;
  proxy_.Hold(support::Direction::kToClient);
  lock.AcquireAsync({.stop = stop.get_token()}, leases_.Callback());
  const auto taken = [&] { return server_->Integer({"EXISTS", "lock"}) == 1; };
  ASSERT_TRUE(Await(taken));
  stop.request_stop();
  // 40 ms for the answer, and as long to cancel; the server would be given up after five seconds.
  ASSERT_TRUE(leases_.Await(1, absl::Seconds(2)));
  EXPECT_TRUE(absl::IsCancelled(leases_.Take().status()));
  proxy_.Heal();
  EXPECT_TRUE(Await([&] { return !taken(); }));
}

// ThreadSanitizer ends a forked child that starts a thread.
#ifndef __SANITIZE_THREAD__
TEST_F(AsyncFault, ForkedChildWithoutAHookIsRefusedOnAThreadOfItsOwn) {
  Leases its;
  const pid_t child = fork();
  if (child == 0) {
    lock_.AcquireAsync({}, its.Callback());
    const bool refused =
        its.Await(1, absl::Seconds(5)) && absl::IsFailedPrecondition(its.Take().status());
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

TEST_F(AsyncFault, ForkedChildIsRefusedAndTheParentGoesOn) {
  std::atomic<bool> forked{false};
  std::vector<std::function<void()>> posted;
  client_ = Connect(proxy_.url(), {.post = [&](const std::function<void()>& completion) {
                      forked ? posted.push_back(completion) : completion();
                    }});
  SimpleLock lock(client_, "lock");
  Client other = Connect(server_->url());
  SimpleLock theirs(other, "lock");
  std::optional<Lease> first = *theirs.Acquire();
  lock.AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 1));
  const pid_t child = fork();
  if (child == 0) {
    forked = true;
    Leases its;
    lock.AcquireAsync({}, its.Callback());
    if (posted.size() != 1 || its.size() != 0) _exit(2);
    posted[0]();
    _exit(absl::IsFailedPrecondition(its.Take().status()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  first.reset();
  EXPECT_TRUE(leases_.Take().ok());
}

// For its first use, a latch is looked up at the server, and a separate thread waits for that. If
// the driver waited, it would be late for a call that asks nothing of the server, as it is stopped.
TEST_F(AsyncFault, FirstUsesOfLatchesDelayNothingElse) {
  constexpr size_t kLatches = 400;
  constexpr absl::Duration kFor = absl::Seconds(2);
  constexpr absl::Duration kAtOnce = absl::Milliseconds(20);
  lock_.AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(leases_.Take(0).ok());
  std::deque<CountDownLatch> latches;
  std::stop_source stop;
  stop.request_stop();
  absl::Duration late;
  size_t calls = 0;
  server_->Stop();
  for (const base::Instant end = base::Now() + kFor; base::Now() < end;) {
    if (latches.size() < kLatches) {
      latches.emplace_back(client_, absl::StrCat("latch", latches.size()), 1)
          .WaitAsync({}, statuses_.Callback());
    }
    const base::Instant began = base::Now();
    lock_.AcquireAsync({.stop = stop.get_token()}, leases_.Callback());
    ++calls;
    ASSERT_TRUE(leases_.Await(1 + calls));
    if (const absl::Duration took = base::Now() - began; took > kAtOnce) late += took;
  }
  EXPECT_LT(late, kFor / 4) << "of " << calls << " calls";
  EXPECT_EQ(latches.size(), kLatches);
  EXPECT_EQ(statuses_.size(), 0U);
  server_->Continue();
  for (CountDownLatch& latch : latches) EXPECT_EQ(latch.CountDown(), absl::OkStatus());
  EXPECT_TRUE(statuses_.Await(latches.size()));
  for (size_t i = 0; i < latches.size(); ++i) EXPECT_EQ(statuses_.Take(i), absl::OkStatus());
}

}  // namespace
}  // namespace redlatch
