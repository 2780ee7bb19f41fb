// Threads that work beside threads that wait, and the first time that a process waits.
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/authority.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::bench {
namespace {

constexpr int kThreads = 32;
constexpr absl::Duration kLength = absl::Seconds(2);

// Some threads of a client lock and unlock a lock each, while as many others, if they are there,
// wait for locks that another client has.
void BM_Waiting_Beside(benchmark::State& state) {
  const Client client = *Client::Connect(ServerUrl());
  const Client other = *Client::Connect(ServerUrl());
  for (auto _ : state) {
    std::vector<Lease> held;
    std::vector<std::jthread> waiters;
    for (int i = 0; i < state.range(0); ++i) {
      const std::string name = absl::StrCat("waiting:", i);
      held.push_back(*SimpleLock(other, name).Acquire());
      waiters.emplace_back([&client, name](const std::stop_token& stop) {
        (void)SimpleLock(client, name).Acquire({.wait = absl::Minutes(1), .stop = stop});
      });
      while (SimpleLock(other, name).Inspect()->waiting < 1) std::this_thread::yield();
    }
    std::atomic<int64_t> pairs{0};
    {
      std::vector<std::jthread> workers;
      const base::Instant end = base::Now() + kLength;
      for (int i = 0; i < kThreads; ++i) {
        workers.emplace_back([&, i] {
          SimpleLock lock(client, absl::StrCat("working:", i));
          for (; base::Now() < end; ++pairs) {
            lock.lock();
            lock.unlock();
          }
        });
      }
    }
    state.SetIterationTime(absl::ToDoubleSeconds(kLength) / static_cast<double>(pairs));
  }
}
BENCHMARK(BM_Waiting_Beside)->Arg(0)->Arg(1)->Arg(kThreads)->UseManualTime()->Iterations(1);

// The same beside threads that wait for locks which change hands: each shares its lock with a
// thread of another client, and both hold it for 2 ms at a time. `gets`: how often they get one,
// for each pair of the threads that work.
void BM_Waiting_BesideContended(benchmark::State& state) {
  const Client client = *Client::Connect(ServerUrl());
  const Client other = *Client::Connect(ServerUrl());
  for (auto _ : state) {
    std::atomic<int64_t> pairs{0};
    std::atomic<int64_t> gets{0};
    {
      std::vector<std::jthread> threads;
      const base::Instant end = base::Now() + kLength;
      const auto run = [&, end](const Client& its, const std::string& name, absl::Duration held_for,
                                std::atomic<int64_t>& count) {
        threads.emplace_back([its, name, held_for, &count, end] {
          SimpleLock lock(its, name);
          for (; base::Now() < end; ++count) {
            lock.lock();
            if (held_for > absl::ZeroDuration()) absl::SleepFor(held_for);
            lock.unlock();
          }
        });
      };
      constexpr absl::Duration kHeldFor = absl::Milliseconds(2);
      for (int i = 0; i < kThreads; ++i) {
        run(client, absl::StrCat("working:", i), absl::ZeroDuration(), pairs);
        run(client, absl::StrCat("contended:", i), kHeldFor, gets);
        run(other, absl::StrCat("contended:", i), kHeldFor, gets);
      }
    }
    state.SetIterationTime(absl::ToDoubleSeconds(kLength) / static_cast<double>(pairs));
    state.counters["gets"] = static_cast<double>(gets) / static_cast<double>(pairs);
  }
}
BENCHMARK(BM_Waiting_BesideContended)->UseManualTime()->Iterations(1);

support::RedisServer& Server() {
  static support::Authority authority;
  static const std::unique_ptr<support::RedisServer> server = support::RedisServer::Start(
      {.tls = support::ServerTls{.cert = authority.Certify(), .ca = authority.file()}});
  return *server;
}

enum Way { kLoopback, kFar, kTls };

// A new client waits for its first lock. Another one, which is near, releases it once the server
// has queued the first.
void BM_Waiting_First(benchmark::State& state) {
  support::RedisServer& server = Server();
  support::TcpProxy far({.port = server.port()});
  for (const support::Direction each :
       {support::Direction::kToServer, support::Direction::kToClient}) {
    far.Delay(each, absl::Milliseconds(2));
  }
  const std::string url = state.range(0) == kTls   ? server.tls_url()
                          : state.range(0) == kFar ? far.url()
                                                   : server.url();
  const Client near = *Client::Connect(server.url());
  SimpleLock held(near, "first");
  for (auto _ : state) {
    Lease lease = *held.Acquire();
    std::jthread releases([&] {
      while (held.Inspect()->waiting < 1) std::this_thread::yield();
      (void)lease.Release();
    });
    const base::Instant began = base::Now();
    const Client client = *Client::Connect(url, {.connect = ConnectPolicy::kLazy});
    const Lease first = *SimpleLock(client, "first").Acquire({.wait = absl::Minutes(1)});
    state.SetIterationTime(absl::ToDoubleSeconds(base::Now() - began));
  }
}
BENCHMARK(BM_Waiting_First)->Arg(kLoopback)->Arg(kFar)->Arg(kTls)->UseManualTime()->Iterations(100);

}  // namespace
}  // namespace redlatch::bench
