// A program whose threads are interrupted by a signal each millisecond, as those of a profiler or
// of a runtime that preempts its threads are.
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/base/thread.h"
#include "src/base/uninterrupted.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

constexpr absl::Duration kStormGrace = absl::Milliseconds(50);
constexpr absl::Duration kWait = absl::Milliseconds(200);
constexpr char kOptions[] = "?command_timeout=200ms&connect_timeout=200ms";

std::atomic<int> signals{0};

// While it lives, the thread that made it gets a signal each millisecond, by a handler that does
// not restart what it interrupts.
class Storm {
 public:
  Storm() {
    struct sigaction action = {};
    action.sa_handler = [](int) { ++signals; };
    sigaction(SIGUSR1, &action, nullptr);
    thread_ = base::StartThread("storm", [this, target = pthread_self()] {
      while (!over_) {
        pthread_kill(target, SIGUSR1);
        base::Parker().ParkUntil(base::Now() + absl::Milliseconds(1));
      }
    });
  }
  ~Storm() {
    over_ = true;
    thread_.join();
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class SignalStorm : public ::testing::Test {
 protected:
  Client NewClient() const { return *Client::Connect(server_->url() + kOptions); }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  Client client_ = NewClient();
  Client other_ = NewClient();
  SimpleLock lock_{client_, "lock"};
  SimpleLock theirs_{other_, "lock"};
  CountDownLatch latch_{client_, "latch", 1};
};

TEST_F(SignalStorm, LosesNoLeaseThatIsRenewed) {
  SimpleLock brief(client_, "brief", {.lease = absl::Milliseconds(500)});
  const auto theirs = theirs_.Acquire();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  redis::Punctuality punctuality;
  const Storm storm;
  const int before = signals;
  const auto lease = brief.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  const base::Instant end = base::Now() + absl::Seconds(4);
  while (base::Now() < end && lease->valid()) {
    EXPECT_FALSE(lock_.try_lock_for(std::chrono::milliseconds(20)));
    EXPECT_TRUE(client_.Ping().ok());
  }
  EXPECT_GT(signals - before, 100);
  // On a machine that lets nobody run for long, that is no wonder: if a thread that only sleeps
  // came 25 ms late.
  const bool excused = static_cast<bool>(punctuality.Within(-absl::Milliseconds(100)));
  EXPECT_TRUE(lease->valid() || excused);
}

TEST_F(SignalStorm, EndsNoWaitEarlyOrLate) {
  theirs_.lock();
  (void)lock_.try_lock_for(std::chrono::milliseconds(1));  // the subscription is made
  (void)latch_.try_wait();
  redis::Punctuality punctuality;
  const Storm storm;
  for (int i = 0; i < 5; ++i) {
    base::Instant deadline = base::Now() + kWait;
    EXPECT_FALSE(lock_.try_lock_for(absl::ToChronoNanoseconds(kWait)));
    EXPECT_GE(base::Now(), deadline);
    punctuality.Note(deadline);
    deadline = base::Now() + kWait;
    EXPECT_FALSE(latch_.wait_for(absl::ToChronoNanoseconds(kWait)));
    EXPECT_GE(base::Now(), deadline);
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kStormGrace));
  theirs_.unlock();
}

TEST_F(SignalStorm, KeepsNoCallFromEndingInTimeThoughTheServerHangs) {
  auto lease = lock_.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  SimpleLock free(client_, "free");
  free.lock();
  free.unlock();
  const Client lazy =
      *Client::Connect(server_->url() + kOptions, {.connect = ConnectPolicy::kLazy});
  SimpleLock first(lazy, "first");
  redis::Punctuality punctuality;
  server_->Stop();
  {
    const Storm storm;
    const auto expect_unreachable = [&](const auto& call) {
      const base::Instant deadline = base::Now() + kWait;
      EXPECT_EQ(call().code(), absl::StatusCode::kUnavailable);
      punctuality.Note(deadline);
    };
    expect_unreachable([&] { return free.Acquire({.wait = kWait}).status(); });
    expect_unreachable([&] { return free.TryAcquire().status(); });
    expect_unreachable([&] { return first.Acquire({.wait = kWait}).status(); });
    expect_unreachable([&] { return first.TryAcquire().status(); });
    expect_unreachable([&] { return Client::Connect(server_->url() + kOptions).status(); });
    expect_unreachable([&] { return client_.Ping().status(); });
    expect_unreachable([&] { return lease->Release(); });
  }
  server_->Continue();
  EXPECT_TRUE(punctuality.Within(kStormGrace));
}

TEST_F(SignalStorm, IsNoReasonNotToStartAServer) {
  const redis::EmbeddedHome home;
  const Storm storm;
  const auto socket = home.Ensure();
  EXPECT_TRUE(socket.ok()) << socket.status();
}

TEST(Uninterrupted, IsCalledAgainForAsLongAsASignalInterruptsIt) {
  int calls = 0;
  const auto interrupted_twice = [&](int result, int error) {
    return [&calls, result, error] {
      errno = ++calls < 3 ? EINTR : error;
      return calls < 3 ? -1 : result;
    };
  };
  EXPECT_EQ(base::Uninterrupted(interrupted_twice(5, 0)), 5);
  EXPECT_EQ(calls, 3);
  calls = 0;
  EXPECT_EQ(base::Uninterrupted(interrupted_twice(-1, ENXIO)), -1);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(errno, ENXIO);
}

}  // namespace
}  // namespace redlatch
