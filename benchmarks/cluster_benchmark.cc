// What a cluster costs: lock and unlock on a cluster of three primaries, and on one server, turn by
// turn; and how evenly many locks are spread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmarks/turns.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "tests/support/cluster_group.h"
#include "tests/support/redis_server.h"

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

// What the server's thread has worked so far.
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

// 64 threads, each with a lock of its own. `busiest`: the part of all that one primary has done.
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

}  // namespace
}  // namespace redlatch::bench
