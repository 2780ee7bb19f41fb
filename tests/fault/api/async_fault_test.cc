// Acquisitions that no thread waits for, and a server that is killed, hangs, forgets its scripts or
// is cut off; and a process that forks.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
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

constexpr absl::Duration kLate = absl::Milliseconds(200);  // 50, and a machine that is busy

class AsyncFault : public ::testing::Test {
 protected:
  bool AwaitWaiting(const Client& client, uint64_t count) {
    return Await([&] { return client.Stats().all.waiting == count; });
  }
  // Each is given back as soon as it is there.
  auto Served() {
    return [this](absl::StatusOr<Lease> lease) {
      lease.ok() ? ++served_ : ++failed_;
      if (!lease.ok()) ADD_FAILURE() << lease.status();
    };
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  support::TcpProxy proxy_{{.port = server_->port()}};
  Client client_ = Connect(proxy_.url(), {.unreachable_after = absl::Seconds(5)});
  SimpleLock lock_{client_, "lock", {.lease = absl::Seconds(2)}};
  std::atomic<int> served_{0};
  std::atomic<int> failed_{0};
  Leases leases_;
  Statuses statuses_;
};

TEST_F(AsyncFault, WaitsEndInTimeThoughTheServerHangs) {
  Lease first = *lock_.Acquire();
  SimpleLock others(client_, "other");
  server_->Stop();
  const base::Instant began = base::Now();
  lock_.AcquireAsync({.wait = absl::Milliseconds(300)}, leases_.Callback());
  others.AcquireAsync({.wait = absl::Milliseconds(600)}, leases_.Callback());
  EXPECT_FALSE(leases_.Take(0).ok());
  const absl::Duration local = base::Now() - began;
  EXPECT_GE(local, absl::Milliseconds(300));
  EXPECT_LE(local, absl::Milliseconds(300) + kLate);
  EXPECT_EQ(leases_.Take(1).status().code(), absl::StatusCode::kUnavailable);
  const absl::Duration remote = base::Now() - began;
  EXPECT_GE(remote, absl::Milliseconds(600));
  EXPECT_LE(remote, absl::Milliseconds(600) + kLate);
  server_->Continue();
}

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

TEST_F(AsyncFault, EndlessWaitFailsWhenTheServerIsSilentForTooLong) {
  server_->Stop();
  const base::Instant began = base::Now();
  lock_.AcquireAsync({}, leases_.Callback());
  leases_.Await(1, absl::Seconds(20));
  EXPECT_EQ(leases_.Take(0).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(base::Now() - began, absl::Seconds(5));
  EXPECT_LE(base::Now() - began, absl::Seconds(5) + kLate);
  server_->Continue();
}

TEST_F(AsyncFault, WaitersOutliveAServerThatIsKilled) {
  Client other = Connect(server_->url());
  SimpleLock theirs(other, "lock");
  constexpr int kWaiters = 20;
  {
    Lease first = *theirs.Acquire();
    for (int i = 0; i < kWaiters; ++i) lock_.AcquireAsync({}, Served());
    ASSERT_TRUE(AwaitWaiting(client_, kWaiters));
    server_->Kill();
    lock_.AcquireAsync({}, Served());
    server_->Restart();  // and has forgotten locks, queues and scripts
  }
  EXPECT_TRUE(Await([&] { return served_ + failed_ == kWaiters + 1; }));
  EXPECT_EQ(failed_, 0);
}

TEST_F(AsyncFault, ScriptsThatTheServerHasForgottenAreSentAgain) {
  for (size_t i = 0; i < 20; ++i) {
    server_->Do({"SCRIPT", "FLUSH"});
    lock_.AcquireAsync({}, leases_.Callback());
    absl::StatusOr<Lease> lease = leases_.Take(i);
    ASSERT_TRUE(lease.ok()) << lease.status();
    server_->Do({"SCRIPT", "FLUSH"});
    lease->ReleaseAsync(statuses_.Callback());
    EXPECT_EQ(statuses_.Take(i), absl::OkStatus());
    EXPECT_EQ(server_->Integer({"EXISTS", "lock"}), 0);
  }
}

TEST_F(AsyncFault, BrokenConnectionsLeakNothing) {
  constexpr int kTimes = 300;
  std::vector<std::unique_ptr<SimpleLock>> locks;
  for (int i = 0; i < 10; ++i) {
    locks.push_back(std::make_unique<SimpleLock>(client_, absl::StrCat("lock", i),
                                                 LockOptions{.lease = absl::Seconds(2)}));
  }
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  std::function<void(SimpleLock&)> next = [&](SimpleLock& lock) {
    if (++begun > kTimes) {
      ++ended;
      return;
    }
    lock.AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      EXPECT_TRUE(lease.ok()) << lease.status();
      ++served_;
      if (lease.ok()) {
        lease->ReleaseAsync([&](const absl::Status&) { next(lock); });
      } else {
        next(lock);
      }
    });
  };
  for (const auto& lock : locks) {
    next(*lock);
    next(*lock);
  }
  for (int i = 0; served_ < kTimes && i < 40; ++i) {
    const int before = served_;
    proxy_.CutAfter(i % 2 == 0 ? support::Direction::kToClient : support::Direction::kToServer,
                    i * 37);
    EXPECT_TRUE(Await([&] { return served_ >= std::min(before + 5, kTimes); }));
  }
  EXPECT_TRUE(Await([&] { return ended == 2 * 10; }, absl::Seconds(30)));
  EXPECT_EQ(served_, kTimes);
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "lock0", "lock5", "lock9"}) == 0; }));
}

TEST_F(AsyncFault, ServerThatIsNotThereYetIsWaitedFor) {
  server_->Kill();
  const absl::StatusOr<Client> client =
      Client::Connect(server_->url(), {.connect = ConnectPolicy::kLazy});
  ASSERT_TRUE(client.ok());
  SimpleLock lock(*client, "lock");
  lock.AcquireAsync({.wait = absl::Milliseconds(200)}, leases_.Callback());
  EXPECT_EQ(leases_.Take(0).status().code(), absl::StatusCode::kUnavailable);
  lock.AcquireAsync({}, leases_.Callback());
  server_->Restart();
  const absl::StatusOr<Lease> lease = leases_.Take(1);
  EXPECT_TRUE(lease.ok()) << lease.status();
}

TEST_F(AsyncFault, ReleaseThatGoesUnansweredIsRepeatedInTheBackground) {
  lock_.AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok()) << lease.status();
  server_->Stop();
  lease->ReleaseAsync(statuses_.Callback());
  EXPECT_EQ(statuses_.Take().code(), absl::StatusCode::kUnavailable);
  server_->Continue();
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "lock"}) == 0; }));
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
