// ClientOptions::post that does what it should not, and callbacks that do all that they may.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
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
using Work = std::function<void()>;

class AsyncHooks : public ::testing::Test {
 protected:
  void Start(std::function<void(Work)> post) {
    client_ = Connect(server_->url(), {.post = std::move(post)});
    lock_.emplace(*client_, "lock");
  }
  bool AwaitFree() {
    return Await([&] { return server_->Integer({"EXISTS", "lock"}) == 0; });
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  std::optional<Client> client_;
  std::optional<SimpleLock> lock_;
  Leases leases_;
  Statuses statuses_;
};

TEST_F(AsyncHooks, WhatIsDroppedIsReleasedAndTheClientGoesOn) {
  std::atomic<bool> drops{true};
  std::atomic<int> dropped{0};
  Start([&](const Work& work) { drops ? void(++dropped) : work(); });
  lock_->AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(Await([&] { return dropped == 1; }));
  EXPECT_TRUE(AwaitFree());
  drops = false;
  lock_->AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(leases_.Take().ok());
}

TEST_F(AsyncHooks, WhatIsNotTakenForAnErrorIsReleasedAndTheClientGoesOn) {
  std::atomic<bool> throws{true};
  std::atomic<int> thrown{0};
  Start([&](const Work& work) {
    if (throws) {
      ++thrown;
      throw std::runtime_error("the loop has ended");
    }
    work();
  });
  lock_->AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(Await([&] { return thrown == 1; }));
  EXPECT_TRUE(AwaitFree());
  throws = false;
  lock_->AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(leases_.Take().ok());
}

TEST_F(AsyncHooks, WhatRunsTwiceIsToldOnce) {
  Start([](const Work& work) {
    work();
    work();
  });
  lock_->AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok()) << lease.status();
  lease->ReleaseAsync(statuses_.Callback());
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());
  EXPECT_EQ(leases_.size(), 1U);
}

TEST_F(AsyncHooks, CallbackThatAHookRunsAtOnceMayDestroyLockAndClient) {
  for (int i = 0; i < 20; ++i) {
    Start([](const Work& work) { work(); });
    std::atomic<bool> done{false};
    lock_->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      EXPECT_TRUE(lease.ok()) << lease.status();
      lock_.reset();
      client_.reset();
      lease = Lease();
      done = true;
    });
    ASSERT_TRUE(Await([&] { return done.load(); }));
  }
  EXPECT_TRUE(AwaitFree());
}

TEST_F(AsyncHooks, WhatTheLoopHasWhenTheClientGoesCanStillRun) {
  std::vector<Work> loop;
  std::atomic<size_t> size{0};
  Start([&](Work work) {
    loop.push_back(std::move(work));
    size = loop.size();
  });
  lock_->AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(Await([&] { return size == 1; }));
  lock_.reset();
  client_.reset();
  loop[0]();
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(lease->Release(), absl::OkStatus());
  EXPECT_TRUE(AwaitFree());
}

// On the client's own thread: what it waits for may not need that.
TEST_F(AsyncHooks, CallbackMayCallWhatBlocks) {
  Start(nullptr);
  SimpleLock second(*client_, "second");
  Client other = Connect(server_->url());
  SimpleLock theirs(other, "second");
  std::optional<Lease> held = *theirs.Acquire();
  lock_->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
    EXPECT_TRUE(lease.ok()) << lease.status();
    absl::StatusOr<Lease> inner = second.Acquire({.wait = absl::Seconds(10)});
    EXPECT_TRUE(inner.ok()) << inner.status();
    absl::Status released = inner.ok() ? inner->Release() : inner.status();
    if (released.ok()) released = lease->Release();
    statuses_.Callback()(released);
  });
  ASSERT_TRUE(Await([&] { return client_->Stats().all.waiting == 1; }));
  held.reset();
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());
}

}  // namespace
}  // namespace redlatch
