// A client that loses all that it holds at once: who is told, and by how many threads.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/process_stats.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using Told = std::stop_callback<std::function<void()>>;

constexpr absl::Duration kLossPatience = absl::Seconds(30);

class MassLoss : public ::testing::Test {
 protected:
  void Take(int holds, const LockOptions& options, const std::function<void()>& on_token) {
    for (int i = 0; i < holds; ++i) {
      SimpleLock lock(client_, absl::StrCat("lock", i), options);
      absl::StatusOr<Lease> lease = lock.Acquire({.wait = kLossPatience});
      ASSERT_TRUE(lease.ok()) << lease.status();
      told_.push_back(std::make_unique<Told>(lease->lost(), on_token));
      leases_.push_back(*std::move(lease));
    }
  }

  // The server forgets all, and the client hears of it as it comes back.
  void LoseAll() {
    server_->Command({"FLUSHALL"});
    server_->Command({"CLIENT", "KILL", "TYPE", "normal"});
    while (!client_.Ping().ok()) {
    }
  }

  // The most threads that this process had until then.
  static int ThreadsUntil(const std::function<bool()>& condition,
                          absl::Duration patience = kLossPatience) {
    const base::Instant until = base::Now() + patience;
    int most = 0;
    while (!condition()) {
      most = std::max(most, support::ThreadCount());
      if (until <= base::Now()) {
        ADD_FAILURE() << "it does not come";
        break;
      }
      std::this_thread::yield();
    }
    return most;
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const Client client_ = *Client::Connect(server_->url());
  std::vector<Lease> leases_;
  std::vector<std::unique_ptr<Told>> told_;
};

TEST_F(MassLoss, IsToldToAllThoughSomeOfThoseDoNotReturn) {
  constexpr int kHolds = 200;
  constexpr int kHanging = 7;  // in tokens, and in callbacks
  std::atomic<bool> go_on{false};
  std::atomic<int> tokens{0};
  std::atomic<int> callbacks{0};
  std::atomic<int> returned{0};
  const auto hang = [&](std::atomic<int>& told) {
    if (++told <= kHanging) go_on.wait(false);
    ++returned;
  };
  LockOptions options;
  options.on_lost = [&](const LostLease&) {
    EXPECT_LT(callbacks, tokens) << "tokens come first";
    hang(callbacks);
  };
  Take(kHolds, options, [&] { hang(tokens); });
  LoseAll();
  ThreadsUntil([&] { return tokens == kHolds && callbacks == kHolds; });
  go_on = true;
  go_on.notify_all();
  ThreadsUntil([&] { return returned == 2 * kHolds; });  // they use what this function has
  ThreadsUntil([] { return support::ThreadCount() <= 8; });
  for (const Lease& lease : leases_) EXPECT_TRUE(lease.lost().stop_requested());
}

}  // namespace
}  // namespace redlatch
