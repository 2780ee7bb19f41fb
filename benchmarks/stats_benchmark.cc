// What statistics cost: each loop on a client that counts and on one that does not, turn by turn.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/lock_loop.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"

namespace redlatch::bench {
namespace {

// So long that no loop ever asks the server whether it may go on.
const LockOptions kLocal{.lease = absl::Hours(1), .local_window = absl::Hours(1)};

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

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// `rounds` times `work`, with and without, in an order that changes from turn to turn. What is told
// is the median over turns, of the ratio too: who else uses the processors shows in few of them.
using Work = std::function<void(int rounds)>;
void Compare(benchmark::State& state, int rounds, const Work& without, const Work& with) {
  std::vector<double> without_ns;
  std::vector<double> with_ns;
  std::vector<double> ratios;
  const auto measure = [rounds](const Work& work) {
    const base::Instant began = base::Now();
    work(rounds);
    return absl::ToDoubleNanoseconds(base::Now() - began) / rounds;
  };
  without(rounds);
  with(rounds);
  bool first = false;
  for (auto _ : state) {
    first = !first;
    if (first) without_ns.push_back(measure(without));
    with_ns.push_back(measure(with));
    if (!first) without_ns.push_back(measure(without));
    ratios.push_back(with_ns.back() / without_ns.back());
  }
  state.counters["without_ns"] = Median(std::move(without_ns));
  state.counters["with_ns"] = Median(std::move(with_ns));
  state.counters["ratio"] = Median(std::move(ratios));
}

template <class Lock>
void Pairs(Lock& lock, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    lock.lock();
    benchmark::ClobberMemory();
    lock.unlock();
  }
}

void BM_Stats_Uncontended(benchmark::State& state) {
  SimpleLock without(ClientThat(false), "stats_uncontended");
  SimpleLock with(ClientThat(true), "stats_uncontended");
  Compare(
      state, 20, [&](int rounds) { Pairs(without, rounds); },
      [&](int rounds) { Pairs(with, rounds); });
}
BENCHMARK(BM_Stats_Uncontended)->UseRealTime()->Iterations(2000);

// Two threads that pass a lock on and take it again: no server, the most acquisitions a second.
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

// A thread that joins another's read again and again.
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
