// A bar: a waiting client is quiet. REDLATCH_FULL_BARS=1 measures 100 clients for 10 s, which takes
// in one heartbeat of each; else fewer for less long, by the same bar.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

constexpr double kBar = 0.25;  // commands a second and client: each 10 s a heartbeat and a ping
constexpr absl::Duration kWaitingPatience = absl::Seconds(20);

// What clients have sent since CONFIG RESETSTAT. Calls inside scripts are counted as well, so that
// only those count that no script makes.
int64_t CommandsSent(support::RedisServer& server) {
  const std::string stats = server.Text({"INFO", "commandstats"});
  int64_t sent = 0;
  for (std::string_view name :
       {"evalsha", "eval", "script|load", "subscribe", "unsubscribe", "ping", "hello", "auth",
        "client|setname", "client|setinfo", "info", "config|get"}) {
    const size_t at = stats.find(absl::StrCat("cmdstat_", std::string(name), ":calls="));
    if (at == std::string::npos) continue;
    sent += std::strtoll(stats.c_str() + stats.find('=', at) + 1, nullptr, 10);
  }
  return sent;
}

template <class Lock>
class Waiting : public ::testing::Test {};
using WaitingLocks = ::testing::Types<SimpleLock, ReentrantLock>;
TYPED_TEST_SUITE(Waiting, WaitingLocks);

TYPED_TEST(Waiting, OfManyClientsSendsNothingButHeartbeats) {
  const bool full = support::FullBars();
  const int clients = full ? 100 : 25;
  const absl::Duration time = absl::Seconds(full ? 10 : 2);
  const auto server = support::RedisServer::Start();
  TypeParam held(*Client::Connect(server->url()), "lock");
  std::optional<Lease> lease = *held.Acquire();

  std::stop_source stop;
  std::vector<std::thread> waiters;
  for (int i = 0; i < clients; ++i) {
    waiters.emplace_back([&] {
      TypeParam lock(*Client::Connect(server->url()), "lock");
      const auto got = lock.Acquire({.stop = stop.get_token()});
      EXPECT_TRUE(got.ok() || absl::IsCancelled(got.status())) << got.status();
    });
  }
  const char* const queue = std::is_same_v<TypeParam, SimpleLock>
                                ? "redlatch:2:{lock}:simple.queue"
                                : "redlatch:2:{lock}:reentrant.queue";
  const base::Instant patience = base::Now() + kWaitingPatience;
  while (server->Integer({"ZCARD", queue}) < clients && base::Now() < patience) {
    std::this_thread::yield();
  }
  ASSERT_EQ(server->Integer({"ZCARD", queue}), clients);

  server->Command({"CONFIG", "RESETSTAT"});
  const base::Instant began = base::Now();
  base::Parker().ParkUntil(began + time);
  const int64_t sent = CommandsSent(*server);
  const double rate =
      static_cast<double>(sent) / clients / absl::ToDoubleSeconds(base::Now() - began);
  EXPECT_LE(rate, kBar) << server->Text({"INFO", "commandstats"});
  std::printf("%d waiting clients: %lld commands, %.3f a second and client\n", clients,
              static_cast<long long>(sent), rate);

  stop.request_stop();
  lease.reset();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_TRUE(held.Acquire({.wait = absl::Seconds(5)}).ok());
}

}  // namespace
}  // namespace redlatch
