// The cost of a cluster: lock and unlock on a cluster of three primaries, and on one server, turn
// by turn; and how evenly many locks are spread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmarks/turns.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/redis/wire/codec.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/server_groups.h"

namespace redlatch::bench {
namespace {

using support::ClusterGroup;
using support::RedisServer;

ClusterGroup& Group() {
  static const auto* const group = new std::unique_ptr<ClusterGroup>(ClusterGroup::Start());
  return **group;
}

void BM_Cluster_Uncontended(benchmark::State& state) {
  const std::unique_ptr<RedisServer> server = RedisServer::Start();
  SimpleLock plain(*Client::Connect(server->url()), "lock");
  SimpleLock clustered(*Client::Connect(Group().url()), "lock");
  Compare(
      state, 20, [&](int rounds) { Pairs(plain, rounds); },
      [&](int rounds) { Pairs(clustered, rounds); });
}
BENCHMARK(BM_Cluster_Uncontended)->UseRealTime()->Iterations(500);

// How long the server's thread has worked so far.
absl::Duration Worked(RedisServer& server) {
  double seconds = 0;
  if (!absl::SimpleAtod(absl::string_view(server.Info("used_cpu_user_main_thread")), &seconds)) {
    abort();
  }
  double system = 0;
  if (!absl::SimpleAtod(absl::string_view(server.Info("used_cpu_sys_main_thread")), &system)) {
    abort();
  }
  return absl::Seconds(seconds + system);
}

// 64 threads, each with its own lock. `busiest`: one primary's share of all work.
void BM_Cluster_Spread(benchmark::State& state) {
  constexpr int kThreads = 64;
  constexpr int kPairs = 200;
  const Client client = *Client::Connect(Group().url());
  std::vector<absl::Duration> before;
  for (size_t i = 0; i < Group().servers(); ++i) before.push_back(Worked(Group().server(i)));
  for ([[maybe_unused]] auto round : state) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        SimpleLock lock(client, absl::StrCat("spread:", t));
        Pairs(lock, kPairs);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  absl::Duration all;
  absl::Duration busiest;
  for (size_t i = 0; i < Group().servers(); ++i) {
    const absl::Duration worked = Worked(Group().server(i)) - before[i];
    all += worked;
    busiest = std::max(busiest, worked);
  }
  state.SetItemsProcessed(state.iterations() * kThreads * kPairs);
  state.counters["busiest"] = absl::FDivDuration(busiest, all);
}
BENCHMARK(BM_Cluster_Spread)->Iterations(5)->UseRealTime();

// What channels cost a server if clients listen for 10,000 names each: one channel per name, or one
// per slot.
void BM_Cluster_Channels(benchmark::State& state) {
  constexpr int kNames = 10'000;
  const bool by_slot = state.range(0) == 1;
  const std::unique_ptr<RedisServer> server = support::StartClusterOfOne();
  const auto memory = [&] {
    int64_t bytes = 0;
    if (!absl::SimpleAtoi(absl::string_view(server->Info("used_memory")), &bytes)) abort();
    return static_cast<double>(bytes);
  };
  const double before = memory();
  const absl::Duration worked = Worked(*server);
  std::vector<support::RawConnection> clients;
  size_t channels = 0;
  for ([[maybe_unused]] auto round : state) {
    support::RawConnection connection = support::RawConnection::ToPort(server->port());
    const std::string client =
        absl::StrCat("redlatch-client-", clients.size(), "-0123456789abcdef");
    std::set<std::string> own;
    for (int i = 0; i < kNames; ++i) {
      const std::string name = absl::StrCat("orders:", i);
      const std::string tag = by_slot ? redis::TagOf(redis::SlotOf(name)) : "{" + name + "}";
      own.insert(absl::StrCat("redlatch:", tag, ":", client));
    }
    for (const std::string& channel : own) connection.Command({"SSUBSCRIBE", channel});
    channels += own.size();
    clients.push_back(std::move(connection));
  }
  const auto count = static_cast<double>(state.iterations());
  state.SetLabel(by_slot ? "by slot" : "by name");
  state.counters["channels"] = static_cast<double>(channels) / count;
  state.counters["bytes"] = (memory() - before) / count;
  state.counters["server_ms"] = absl::ToDoubleMilliseconds(Worked(*server) - worked) / count;
}
BENCHMARK(BM_Cluster_Channels)->Arg(0)->Arg(1)->Iterations(10)->UseRealTime();

}  // namespace
}  // namespace redlatch::bench
