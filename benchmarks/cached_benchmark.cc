// LockOptions::cache_for and turn: the cost of taking a cached lock, of recalling it from another
// process, and the throughput of many processes that all want one lock, or mostly read.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/latency_samples.h"
#include "benchmarks/lock_loop.h"
#include "benchmarks/process_race.h"
#include "benchmarks/raw_lock.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/simple_lock.h"

namespace redlatch::bench {
namespace {

constexpr absl::Duration kCacheFor = absl::Seconds(5);

void BM_Cached_SimpleLock(benchmark::State& state) {
  SimpleLock lock(SharedClient(), "cached_simple", {.cache_for = kCacheFor});
  LockLoop(state, lock);
}
BENCHMARK(BM_Cached_SimpleLock)->UseRealTime();

void BM_Cached_ReentrantLock(benchmark::State& state) {
  ReentrantLock lock(SharedClient(), "cached_reentrant", {.cache_for = kCacheFor});
  LockLoop(state, lock);
}
BENCHMARK(BM_Cached_ReentrantLock)->UseRealTime();

void BM_Cached_Read(benchmark::State& state) {
  ReentrantReadWriteLock lock(SharedClient(), "cached_read", {.cache_for = kCacheFor});
  LockLoop(state, lock.read_lock());
}
BENCHMARK(BM_Cached_Read)->UseRealTime();

void BM_Cached_Acquire(benchmark::State& state) {
  SimpleLock lock(SharedClient(), "cached_acquire", {.cache_for = kCacheFor});
  for (auto _ : state) {
    const absl::StatusOr<Lease> lease = lock.Acquire({});
    if (!lease.ok()) state.SkipWithError(lease.status().ToString().c_str());
  }
}
BENCHMARK(BM_Cached_Acquire)->UseRealTime();

// One process caches the lock; the other recalls it, and measures that. `cached` 0: it measures a
// lock of its own, while the other process does the same work. 2: it measures a pair by hand, which
// has as many round trips as a recall, and nothing else.
REDLATCH_RACER(Recall) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  const bool caches = racer.index() == 0;
  SimpleLock lock(*client, "recalled", {.cache_for = caches ? kCacheFor : absl::ZeroDuration()});
  SimpleLock own(*client, "recalled_own");
  absl::StatusOr<RawLock> raw = RawLock::Open("recalled_raw", "id");
  if (!raw.ok()) return raw.status();
  const bool by_hand = racer.args().at(0) == "2";
  const bool alone = racer.args().at(0) == "0";
  racer.AwaitStart();
  while (racer.Running()) {
    if (caches) {
      lock.lock();
      lock.unlock();
      absl::SleepFor(absl::Microseconds(300));
    } else {
      SimpleLock& which = alone ? own : lock;
      const int64_t begun = MonotonicNanos();
      if (by_hand) {
        const absl::StatusOr<bool> acquired = raw->TryAcquire();
        if (!acquired.ok()) return acquired.status();
        if (absl::Status released = raw->Release(); !released.ok()) return released;
      } else {
        which.lock();
        which.unlock();
      }
      racer.Sample(MonotonicNanos() - begun);
      racer.Count();
      absl::SleepFor(absl::Microseconds(700));
    }
  }
  return absl::OkStatus();
}

void BM_Cached_Recall(benchmark::State& state) {
  for (auto _ : state) {
    ReportSamples(state, RunRace({.racer = "Recall",
                                  .processes = 2,
                                  .args = {std::to_string(state.range(0))},
                                  .commands = {"evalsha", "eval"}}));
  }
}
BENCHMARK(BM_Cached_Recall)
    ->ArgName("cached")
    ->Arg(0)
    ->Arg(1)
    ->Arg(2)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// All processes want one lock, with or without cache_for or a turn (in ms).
REDLATCH_RACER(CachedContended) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  LockOptions options;
  if (racer.args().at(0) == "1") options.cache_for = kCacheFor;
  options.turn = absl::Milliseconds(std::stoi(racer.args().at(1)));
  SimpleLock lock(*client, "cached_contended", options);
  TakeUntilOver(racer, lock);
  return absl::OkStatus();
}

void BM_Cached_Contended(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state,
               RunRace({.racer = "CachedContended",
                        .processes = 16,
                        .args = {std::to_string(state.range(0)), std::to_string(state.range(1))},
                        .commands = {"evalsha", "eval"}}));
  }
}
BENCHMARK(BM_Cached_Contended)
    ->ArgNames({"cached", "turn_ms"})
    ->Args({0, 0})
    ->Args({1, 0})
    ->Args({0, 1})
    ->Iterations(1)
    ->UseManualTime();

// Eight processes; of a hundred acquisitions, 99 read.
REDLATCH_RACER(CachedReads) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  LockOptions options;
  if (racer.args().at(0) == "1") options.cache_for = kCacheFor;
  ReentrantReadWriteLock lock(*client, "cached_reads", options);
  uint32_t chance = 12345U + static_cast<uint32_t>(racer.index());
  racer.AwaitStart();
  while (racer.Running()) {
    chance = chance * 1664525U + 1013904223U;
    (chance >> 8U) % 100 == 0 ? TakeOnce(racer, lock) : ReadOnce(racer, lock);
  }
  return absl::OkStatus();
}

void BM_Cached_MostlyReads(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state, RunRace({.racer = "CachedReads",
                               .processes = 8,
                               .args = {std::to_string(state.range(0))},
                               .commands = {"evalsha", "eval"}}));
  }
}
BENCHMARK(BM_Cached_MostlyReads)->ArgName("cached")->Arg(0)->Arg(1)->Iterations(1)->UseManualTime();

}  // namespace
}  // namespace redlatch::bench
