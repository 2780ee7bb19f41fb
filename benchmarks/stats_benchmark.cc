// The cost of statistics: each loop on a client that counts and on one that does not, turn by turn.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/turns.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"

namespace redlatch::bench {
namespace {

// So long that no loop has to ask the server whether it may continue.
const LockOptions kLocal{.lease = absl::Hours(1), .turn = absl::Hours(1)};

const Client& ClientThat(bool counts) {
  static const auto* const clients = [] {
    auto* const made = new std::vector<Client>;
    for (const int names : {0, ClientOptions().stats_names}) {
      made->push_back(*Client::Connect(ServerUrl(), {.stats_names = names}));
    }
    return made;
  }();
  return (*clients)[counts ? 1 : 0];
}

void BM_Stats_Uncontended(benchmark::State& state) {
  SimpleLock without(ClientThat(false), "stats_uncontended");
  SimpleLock with(ClientThat(true), "stats_uncontended");
  Compare(
      state, 20, [&](int rounds) { Pairs(without, rounds); },
      [&](int rounds) { Pairs(with, rounds); });
}
BENCHMARK(BM_Stats_Uncontended)->UseRealTime()->Iterations(2000);

// Two threads pass a lock on and take it again, without the server: the highest rate of
// acquisitions.
void BM_Stats_Threads(benchmark::State& state) {
  SimpleLock without(ClientThat(false), "stats_threads:without", kLocal);
  SimpleLock with(ClientThat(true), "stats_threads:with", kLocal);
  const auto race = [](SimpleLock& lock, int rounds) {
    std::thread other([&] { Pairs(lock, rounds / 2); });
    Pairs(lock, rounds / 2);
    other.join();
  };
  Compare(
      state, 20000, [&](int rounds) { race(without, rounds); },
      [&](int rounds) { race(with, rounds); });
}
BENCHMARK(BM_Stats_Threads)->UseRealTime()->Iterations(200);

void BM_Stats_Reentry(benchmark::State& state) {
  ReentrantLock without(ClientThat(false), "stats_reentry:without", kLocal);
  ReentrantLock with(ClientThat(true), "stats_reentry:with", kLocal);
  without.lock();
  with.lock();
  Compare(
      state, 20000, [&](int rounds) { Pairs(without, rounds); },
      [&](int rounds) { Pairs(with, rounds); });
  without.unlock();
  with.unlock();
}
BENCHMARK(BM_Stats_Reentry)->UseRealTime()->Iterations(500);

// A thread joins another's read again and again.
void BM_Stats_ReadJoin(benchmark::State& state) {
  ReentrantReadWriteLock without(ClientThat(false), "stats_join:without", kLocal);
  ReentrantReadWriteLock with(ClientThat(true), "stats_join:with", kLocal);
  std::vector<Lease> first;
  std::thread([&] {
    first.push_back(*without.AcquireRead());
    first.push_back(*with.AcquireRead());
  }).join();
  Compare(
      state, 20000, [&](int rounds) { Pairs(without.read_lock(), rounds); },
      [&](int rounds) { Pairs(with.read_lock(), rounds); });
}
BENCHMARK(BM_Stats_ReadJoin)->UseRealTime()->Iterations(500);

void BM_Stats_Semaphore(benchmark::State& state) {
  Semaphore without(ClientThat(false), "stats_semaphore", 1);
  Semaphore with(ClientThat(true), "stats_semaphore", 1);
  const auto pairs = [](Semaphore& semaphore, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      semaphore.acquire();
      semaphore.release();
    }
  };
  Compare(
      state, 20, [&](int rounds) { pairs(without, rounds); },
      [&](int rounds) { pairs(with, rounds); });
}
BENCHMARK(BM_Stats_Semaphore)->UseRealTime()->Iterations(2000);

}  // namespace
}  // namespace redlatch::bench
