// Limits on what a client costs its process and its server if it holds many locks, waits, or loses
// everything at once. With REDLATCH_FULL_BARS=1, the tests use more locks and last longer.
#include <malloc.h>

#include "redlatch/redisson/lock.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCostsAreOurs = false;
#else
constexpr bool kCostsAreOurs = true;
#endif

struct ClientCosts : ::testing::Test {
  std::vector<Lease> Take(int locks, const LockOptions& options, const std::string& prefix) {
    std::vector<Lease> held;
    for (int i = 0; i < locks; ++i) {
      SimpleLock lock(client_, absl::StrCat(prefix, i), options);
      absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(30)});
      EXPECT_TRUE(lease.ok()) << lease.status();
      if (lease.ok()) held.push_back(*std::move(lease));
    }
    return held;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const int threads_before_ = support::ThreadCount();
  const Client client_ = Connect(server_->url());
};

TEST_F(ClientCosts, OneThreadRenewsAllHolds) {
  constexpr int kLocks = 200;
  constexpr absl::Duration kLease = absl::Seconds(6);
  const absl::Duration time = absl::Seconds(support::FullBars() ? 20 : 4);
  const auto held = Take(kLocks, {.lease = kLease}, "lock");
  EXPECT_TRUE(Await([&] { return client_.Stats().all.renewed >= kLocks; }));
  // The client's threads: subscriber, background and loss notifier.
  EXPECT_LE(support::ThreadCount() - threads_before_, 3);
  const int threads = support::ThreadCount();
  server_->Do({"CONFIG", "RESETSTAT"});
  const absl::Duration before = support::ProcessCpuTime();
  const absl::Duration took = TimeOf([&] { Sleep(time); });  // renewals cost this much
  const double share = absl::FDivDuration(support::ProcessCpuTime() - before, took);
  EXPECT_EQ(support::ThreadCount(), threads);
  EXPECT_TRUE(!kCostsAreOurs || share < 0.02) << share;
  for (const Lease& each : held) EXPECT_TRUE(each.valid());
  EXPECT_GE(server_->Calls({"evalsha"}), kLocks);
}

TEST_F(ClientCosts, HoldUsesAtMostTwoKibibytes) {
  const int locks = std::max(1000, support::Scaled(10'000));
  // Long enough that none is renewed meanwhile, since a request in flight uses memory too.
  const LockOptions options = {.lease = absl::Minutes(10)};
  const auto warm = Take(500, options, "warm");
  const auto in_use = [] {
    const auto info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  const int64_t before = in_use();
  const auto held = Take(locks, options, "lock");
  const int64_t each = (in_use() - before) / locks;
  EXPECT_TRUE(!kCostsAreOurs || each <= 2048) << each;
}

TEST_F(ClientCosts, WaitingClientsSendOnlyHeartbeats) {
  const int clients = support::FullBars() ? 100 : 25;
  const absl::Duration time = absl::Seconds(support::FullBars() ? 10 : 2);
  constexpr double kMost = 0.25;  // per second and client: a heartbeat and a ping every 10 s
  const auto held = Take(1, {}, "lock");
  std::stop_source stop;
  std::vector<std::jthread> waiters;
  for (int i = 0; i < clients; ++i) {
    waiters.emplace_back([&] {
      EXPECT_TRUE(absl::IsCancelled(SimpleLock(Connect(server_->url()), "lock0")
                                        .Acquire({.stop = stop.get_token()})
                                        .status()));
    });
  }
  EXPECT_TRUE(Await([&] {
    return server_->Integer({"ZCARD", support::AuxiliaryKey("lock0", "simple.queue")}) == clients;
  }));
  server_->Do({"CONFIG", "RESETSTAT"});
  const absl::Duration took = TimeOf([&] { Sleep(time); });  // heartbeats go on
  const int64_t sent =
      server_->Calls({"evalsha", "eval", "script|load", "subscribe", "unsubscribe", "ping", "hello",
                      "auth", "client|setname", "info", "config|get"});
  EXPECT_LE(static_cast<double>(sent) / clients / absl::ToDoubleSeconds(took), kMost) << sent;
  stop.request_stop();
}

// Each waits for a lock of its own, in one client. Lock: the class.
template <class Lock>
struct ManyWaiters {
  ManyWaiters(const std::string& url, int count, const LockOptions& options)
      : holder(Connect(url)), client(Connect(url)) {
    for (int i = 0; i < count; ++i) {
      const std::string name = absl::StrCat("lock", i);
      holds.push_back(*Lock(holder, name, {.lease = absl::Hours(1)}).Acquire());
      locks.emplace_back(client, name, options);
      locks.back().AcquireAsync({.stop = stop.get_token()}, [this](const auto& result) {
        EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
        ++ended;
      });
    }
  }
  ~ManyWaiters() {
    stop.request_stop();
    EXPECT_TRUE(Await([&] { return ended == static_cast<int>(locks.size()); }));
  }
  const Client holder;
  const Client client;
  std::vector<Lease> holds;
  std::stop_source stop;
  std::deque<Lock> locks;
  std::atomic<int> ended = 0;
};

// What they cost while nothing happens: the share of a processor, and scripts per waiter and
// second.
struct IdleCost {
  double share;
  double scripts;
};

template <class Lock>
IdleCost CostOfWaiters() {
  const int count = support::FullBars() ? 10'000 : 1000;
  const absl::Duration lease = absl::Seconds(support::FullBars() ? 30 : 3);
  const auto server = RedisServer::Start();
  const ManyWaiters<Lock> waiters(server->url() + "?command_timeout=30s", count, {.lease = lease});
  const auto scripts = [&] { return server->Calls({"evalsha"}); };
  // All of them have sent a heartbeat.
  EXPECT_TRUE(Await([&] { return scripts() >= 4 * count; }, absl::Minutes(1))) << scripts();
  const int64_t before = scripts();
  const absl::Duration cpu = support::ProcessCpuTime();
  const absl::Duration took = TimeOf([&] { Sleep(lease); });
  const double share = absl::FDivDuration(support::ProcessCpuTime() - cpu, took);
  return {share, static_cast<double>(scripts() - before) / count / absl::ToDoubleSeconds(took)};
}

TEST_F(ClientCosts, WaitersForRedissonsLocksCostAsMuchAsOthers) {
  const IdleCost simple = CostOfWaiters<SimpleLock>();
  const IdleCost redisson = CostOfWaiters<redisson::Lock>();
  std::printf("SimpleLock %.2f %% (%.2f scripts), redisson::Lock %.2f %% (%.2f)\n",
              100 * simple.share, simple.scripts, 100 * redisson.share, redisson.scripts);
  const double heartbeats = support::FullBars() ? 0.1 : 1;
  EXPECT_LT(redisson.scripts, 1.25 * heartbeats);
  if (!kCostsAreOurs) return;
  EXPECT_LT(redisson.share, 0.04);
  EXPECT_LT(redisson.share / redisson.scripts, 2.5 * simple.share / simple.scripts);
}

// Some of the callbacks do not return.
TEST_F(ClientCosts, FewThreadsReportLossOfAllHolds) {
  constexpr int kHolds = 200;
  constexpr int kHanging = 7;  // stop callbacks, and as many on_lost callbacks
  std::atomic<bool> go_on{false};
  std::atomic<int> tokens{0};
  std::atomic<int> callbacks{0};
  std::atomic<int> returned{0};
  const auto hang = [&](std::atomic<int>& told) {
    if (++told <= kHanging) go_on.wait(false);
    ++returned;
  };
  const std::vector<Lease> held = Take(kHolds,
                                       {.on_lost =
                                            [&](const LostLease&) {
                                              EXPECT_LT(callbacks, tokens) << "tokens come first";
                                              hang(callbacks);
                                            }},
                                       "lock");
  using Told = std::stop_callback<std::function<void()>>;
  std::vector<std::unique_ptr<Told>> told;
  for (const Lease& each : held) {
    told.push_back(std::make_unique<Told>(each.lost(), [&] { hang(tokens); }));
  }
  // The server forgets everything, and the client learns that when it reconnects.
  server_->Do({"FLUSHALL"});
  server_->KillClients();
  EXPECT_TRUE(Await([&] { return client_.Ping().ok(); }));
  const absl::Duration timeout = absl::Seconds(30);
  EXPECT_TRUE(Await([&] { return tokens == kHolds && callbacks == kHolds; }, timeout));
  go_on = true;
  go_on.notify_all();
  EXPECT_TRUE(Await([&] { return returned == 2 * kHolds; }, timeout));
  EXPECT_TRUE(Await([&] { return support::ThreadCount() - threads_before_ <= 8; }, timeout));
  for (const Lease& each : held) EXPECT_TRUE(each.lost().stop_requested());
}

}  // namespace
}  // namespace redlatch
