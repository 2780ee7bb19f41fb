// Calls with a wait that begin while the server serves nobody: they try until their time is over.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/redis_server.h"
#include "tests/support/refusals.h"

namespace redlatch {
namespace {

constexpr absl::Duration kWait = absl::Seconds(60);

TEST(WaitForServer, CallsTryUntilItServesThem) {
  for (const support::Refusal& refusal : support::Refusals()) {
    SCOPED_TRACE(refusal.name);
    const auto server = support::RedisServer::Start();
    refusal.begin(*server);
    const Client client = *Client::Connect(server->url(), {.connect = ConnectPolicy::kLazy});
    SimpleLock lock(client, "lock");
    SimpleLock tried(client, "tried");
    SimpleLock async(client, "async");
    ReentrantReadWriteLock shared(client, "shared");
    Semaphore semaphore(client, "semaphore", 1);
    CountDownLatch latch(client, "latch", 0);
    const std::vector<std::function<absl::Status()>> calls = {
        [&] { return lock.Acquire({.wait = kWait}).status(); },
        [&] {
          const bool locked = tried.try_lock_for(std::chrono::seconds(60));
          if (locked) tried.unlock();
          return locked ? absl::OkStatus() : absl::UnknownError("busy");
        },
        [&] {
          std::promise<absl::Status> told;
          async.AcquireAsync({.wait = kWait},
                             [&](const auto& lease) { told.set_value(lease.status()); });
          return told.get_future().get();
        },
        [&] { return shared.AcquireRead({.wait = kWait}).status(); },
        [&] { return semaphore.Acquire(1, {.wait = kWait}).status(); },
        [&] { return latch.Wait({.wait = kWait}); }};
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
    refusal.end(*server);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace redlatch
