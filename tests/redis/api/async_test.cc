// The asynchronous face on one server: when callbacks come, where, and what ends a wait.
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/mutex.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/outcomes.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using Leases = support::Outcomes<absl::StatusOr<Lease>>;
using Statuses = support::Outcomes<absl::Status>;

// An event loop of a test's own: what is posted runs when the test says so.
class Loop {
 public:
  std::function<void(std::function<void()>)> hook() {
    return [this](std::function<void()> posted) {
      const base::MutexLock lock(mu_);
      posted_.push_back(std::move(posted));
    };
  }
  size_t size() const {
    const base::MutexLock lock(mu_);
    return posted_.size();
  }
  void RunAll() {
    for (;;) {
      std::function<void()> next;
      {
        const base::MutexLock lock(mu_);
        if (posted_.empty()) return;
        next = std::move(posted_.front());
        posted_.pop_front();
      }
      next();
    }
  }
  void Drop() {
    const base::MutexLock lock(mu_);
    posted_.clear();
  }

 private:
  mutable base::Mutex mu_;
  std::deque<std::function<void()>> posted_ ABSL_GUARDED_BY(mu_);
};

class Async : public ::testing::Test {
 protected:
  bool IsFree(const std::string& key = "lock") { return server_->Integer({"EXISTS", key}) == 0; }
  bool AwaitFree(const std::string& key = "lock") {
    return Await([&] { return IsFree(key); });
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  std::optional<Client> client_ = Connect(server_->url());
  std::optional<SimpleLock> lock_{std::in_place, *client_, "lock"};
  Leases leases_;
  Statuses statuses_;
};

TEST_F(Async, TakesTurnsWithThreadsAndOtherClients) {
  Client other = Connect(server_->url());
  SimpleLock its(other, "lock");
  std::atomic<int> holders{0};
  std::atomic<int> done{0};
  constexpr int kTimes = 100;
  std::function<void()> again = [&] {
    lock_->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      ASSERT_TRUE(lease.ok()) << lease.status();
      EXPECT_EQ(++holders, 1);
      --holders;
      lease = Lease();
      if (++done < kTimes) again();
    });
  };
  again();
  std::thread thread([&] {
    for (int i = 0; i < kTimes; ++i) {
      Lease lease = *its.Acquire();
      EXPECT_EQ(++holders, 1);
      --holders;
    }
  });
  for (int i = 0; i < kTimes; ++i) {
    Lease lease = *lock_->Acquire();
    EXPECT_EQ(++holders, 1);
    --holders;
  }
  thread.join();
  EXPECT_TRUE(Await([&] { return done == kTimes; }));
  EXPECT_TRUE(AwaitFree());
}

TEST_F(Async, IsCancelledThoughTheTokenFiredBefore) {
  std::stop_source stop;
  stop.request_stop();
  lock_->AcquireAsync({.stop = stop.get_token()}, leases_.Callback());
  EXPECT_EQ(leases_.Take().status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(IsFree());
}

TEST_F(Async, IsCancelledWhenLockAndClientGoBeforeItHasBegun) {
  for (size_t i = 0; i < 50; ++i) {
    std::optional<Client> client = Connect(server_->url());
    std::optional<SimpleLock> lock(std::in_place, *client, "lock");
    lock->AcquireAsync({}, leases_.Callback());
    lock.reset();
    client.reset();
    const absl::StatusOr<Lease> lease = leases_.Take(i);
    if (!lease.ok()) {
      EXPECT_EQ(lease.status().code(), absl::StatusCode::kCancelled);
    }
  }
  EXPECT_TRUE(AwaitFree());
}

TEST_F(Async, CallbackMayDestroyLockClientAndLease) {
  for (int i = 0; i < 20; ++i) {
    std::optional<Client> client = Connect(server_->url());
    std::optional<SimpleLock> lock(std::in_place, *client, "lock");
    std::atomic<bool> done{false};
    lock->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      EXPECT_TRUE(lease.ok()) << lease.status();
      lock.reset();
      client.reset();
      lease = Lease();  // the last that keeps the client
      done = true;
    });
    EXPECT_TRUE(Await([&] { return done.load(); }));
  }
  EXPECT_TRUE(AwaitFree());
}

TEST_F(Async, NeverRunsACallbackInsideTheCall) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> told{0};
  SimpleLock bad(*client_, "redlatch:bad");
  for (SimpleLock* lock : {&*lock_, &bad}) {
    bool within = true;
    lock->AcquireAsync({}, [&](const absl::StatusOr<Lease>&) {
      EXPECT_NE(std::this_thread::get_id(), caller);
      ++told;
    });
    within = false;
    EXPECT_FALSE(within);
  }
  EXPECT_TRUE(Await([&] { return told == 2; }));
}

TEST_F(Async, TellsOfBadOptions) {
  lock_->AcquireAsync({.lease = absl::Milliseconds(1)}, leases_.Callback());
  EXPECT_EQ(leases_.Take(0).status().code(), absl::StatusCode::kInvalidArgument);
  lock_->AcquireAsync({.owner = Owner("job")}, leases_.Callback());
  EXPECT_EQ(leases_.Take(1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Async, CallbackThatThrowsHarmsNobody) {
  lock_->AcquireAsync({}, [](const absl::StatusOr<Lease>&) { throw std::runtime_error("oops"); });
  lock_->AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(leases_.Take().ok());
}

TEST_F(Async, RunsCompletionsWhereTheHookSays) {
  Loop loop;
  Client client = Connect(server_->url(), {.post = loop.hook()});
  SimpleLock lock(client, "lock");
  lock.AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(Await([&] { return loop.size() == 1; }));
  EXPECT_EQ(leases_.size(), 0U);
  loop.RunAll();
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok()) << lease.status();
  lease->ReleaseAsync(statuses_.Callback());
  EXPECT_TRUE(Await([&] { return loop.size() == 1; }));
  EXPECT_EQ(statuses_.size(), 0U);
  loop.RunAll();
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());
}

TEST_F(Async, LeaseThatNobodyTakesIsReleased) {
  Loop loop;
  Client client = Connect(server_->url(), {.post = loop.hook()});
  SimpleLock lock(client, "lock");
  lock.AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(Await([&] { return loop.size() == 1; }));
  EXPECT_FALSE(IsFree());
  loop.Drop();
  EXPECT_TRUE(AwaitFree());
  EXPECT_EQ(leases_.size(), 0U);
}

TEST_F(Async, ReleaseTellsThatTheHoldWasLost) {
  lock_->AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(lock_->ForceRelease(), absl::OkStatus());
  EXPECT_TRUE(Await([&] { return !lease->valid(); }));
  EXPECT_TRUE(lease->lost().stop_requested());
  lease->ReleaseAsync(statuses_.Callback());
  EXPECT_EQ(statuses_.Take().code(), absl::StatusCode::kAborted);
}

TEST_F(Async, ReleaseOfNothingIsOk) {
  Lease nothing;
  nothing.ReleaseAsync(statuses_.Callback());
  EXPECT_EQ(statuses_.Take(0), absl::OkStatus());
  lock_->AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(lease->Release(), absl::OkStatus());
  lease->ReleaseAsync(statuses_.Callback());
  EXPECT_EQ(statuses_.Take(1), absl::OkStatus());
}

}  // namespace
}  // namespace redlatch
