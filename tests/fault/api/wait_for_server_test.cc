// Calls with a wait that begin while no server serves them: they try until their time is over.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/red_lock.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/refusals.h"

namespace redlatch {
namespace {

constexpr absl::Duration kWait = absl::Seconds(60);

using WaitForServer = ::testing::TestWithParam<support::UnservedGroupCase>;

TEST_P(WaitForServer, CallsTryUntilItServesThem) {
  const auto group = GetParam().start();
  const std::string url = group->url();
  const Client client = *Client::Connect(url, {.connect = ConnectPolicy::kLazy});
  const std::string tag = support::UnservedGroup::kTag;
  const bool of_quorum = url.starts_with("redlock:");
  const auto make = [&](const char* name) -> std::unique_ptr<RedisLockBase> {
    if (of_quorum) return std::make_unique<RedLock>(client, tag + name);
    return std::make_unique<SimpleLock>(client, tag + name);
  };
  const auto lock = make("lock");
  const auto tried = make("tried");
  const auto async = make("async");
  ReentrantReadWriteLock shared(client, tag + "shared");
  Semaphore semaphore(client, tag + "semaphore", 1);
  CountDownLatch latch(client, tag + "latch", 0);
  std::vector<std::function<absl::Status()>> calls = {
      [&] { return lock->Acquire({.wait = kWait}).status(); },
      [&] {
        const bool locked = tried->try_lock_for(std::chrono::seconds(60));
        if (locked) tried->unlock();
        return locked ? absl::OkStatus() : absl::UnknownError("busy");
      },
      [&] {
        std::promise<absl::Status> told;
        async->AcquireAsync({.wait = kWait},
                            [&](const auto& lease) { told.set_value(lease.status()); });
        return told.get_future().get();
      },
      [&] { return shared.AcquireRead({.wait = kWait}).status(); },
      [&] { return semaphore.Acquire(1, {.wait = kWait}).status(); },
      [&] { return latch.Wait({.wait = kWait}); }};
  if (of_quorum) calls.resize(3);  // there is nothing but RedLocks
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (const auto& call : calls) {
    threads.emplace_back([&ended, &call] {
      const absl::Status status = call();
      EXPECT_TRUE(status.ok()) << status;
      ++ended;
    });
  }
  EXPECT_FALSE(support::Await([&] { return ended > 0; }, absl::Milliseconds(300)));
  group->Serve();
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Of, WaitForServer, ::testing::ValuesIn(support::UnservedGroups()),
                         support::NameOfUnserved);

}  // namespace
}  // namespace redlatch
