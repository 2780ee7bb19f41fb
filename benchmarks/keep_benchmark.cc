// LockOptions::cache_for and turn: what taking a lock again costs that its client has kept; calling
// it back from another process; and what many processes get that all want it, or mostly read.
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

constexpr absl::Duration kKeep = absl::Seconds(5);

void BM_Keep_SimpleLock(benchmark::State& state) {
  SimpleLock lock(SharedClient(), "keep_simple", {.cache_for = kKeep});
  LockLoop(state, lock);
}
BENCHMARK(BM_Keep_SimpleLock)->UseRealTime();

void BM_Keep_ReentrantLock(benchmark::State& state) {
  ReentrantLock lock(SharedClient(), "keep_reentrant", {.cache_for = kKeep});
  LockLoop(state, lock);
}
BENCHMARK(BM_Keep_ReentrantLock)->UseRealTime();

void BM_Keep_Read(benchmark::State& state) {
  ReentrantReadWriteLock lock(SharedClient(), "keep_read", {.cache_for = kKeep});
  LockLoop(state, lock.read_lock());
}
BENCHMARK(BM_Keep_Read)->UseRealTime();

void BM_Keep_Acquire(benchmark::State& state) {
  SimpleLock lock(SharedClient(), "keep_acquire", {.cache_for = kKeep});
  for (auto _ : state) {
    const absl::StatusOr<Lease> lease = lock.Acquire({});
    if (!lease.ok()) state.SkipWithError(lease.status().ToString().c_str());
  }
}
BENCHMARK(BM_Keep_Acquire)->UseRealTime();

// One process keeps the lock idle; the other calls it back, and times that. `kept` 0: it times a
// lock of its own, beside the same work of the other; 2: a pair by hand, whose two round trips are
// as many as a call back has, and nothing else.
REDLATCH_RACER(CalledBack) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  const bool keeps = racer.index() == 0;
  SimpleLock lock(*client, "called_back", {.cache_for = keeps ? kKeep : absl::ZeroDuration()});
  SimpleLock own(*client, "called_back_own");
  absl::StatusOr<RawLock> raw = RawLock::Open("called_back_raw", "id");
  if (!raw.ok()) return raw.status();
  const bool by_hand = racer.args().at(0) == "2";
  const bool alone = racer.args().at(0) == "0";
  racer.AwaitStart();
  while (racer.Running()) {
    if (keeps) {
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

void BM_Keep_CalledBack(benchmark::State& state) {
  for (auto _ : state) {
    const absl::StatusOr<RaceResult> result = RunRace({.racer = "CalledBack",
                                                       .processes = 2,
                                                       .args = {std::to_string(state.range(0))},
                                                       .commands = {"evalsha", "eval"}});
    if (!result.ok()) {
      state.SkipWithError(result.status().ToString().c_str());
      break;
    }
    ReportLatency(state, result->samples);
  }
}
BENCHMARK(BM_Keep_CalledBack)
    ->ArgName("kept")
    ->Arg(0)
    ->Arg(1)
    ->Arg(2)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// One lock that all processes want, with or without `keep` or a `turn` (of so many ms).
REDLATCH_RACER(KeepContended) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  LockOptions options;
  if (racer.args().at(0) == "1") options.cache_for = kKeep;
  options.turn = absl::Milliseconds(std::stoi(racer.args().at(1)));
  SimpleLock lock(*client, "keep_contended", options);
  racer.AwaitStart();
  while (racer.Running()) {
    lock.lock();
    racer.Count();
    lock.unlock();
  }
  return absl::OkStatus();
}

void BM_Keep_Contended(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state,
               RunRace({.racer = "KeepContended",
                        .processes = 16,
                        .args = {std::to_string(state.range(0)), std::to_string(state.range(1))},
                        .commands = {"evalsha", "eval"}}));
  }
}
BENCHMARK(BM_Keep_Contended)
    ->ArgNames({"keep", "turn_ms"})
    ->Args({0, 0})
    ->Args({1, 0})
    ->Args({0, 1})
    ->Iterations(1)
    ->UseManualTime();

// Eight processes; of a hundred acquisitions 99 read.
REDLATCH_RACER(KeepReads) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  LockOptions options;
  if (racer.args().at(0) == "1") options.cache_for = kKeep;
  ReentrantReadWriteLock lock(*client, "keep_reads", options);
  uint32_t chance = 12345U + static_cast<uint32_t>(racer.index());
  racer.AwaitStart();
  while (racer.Running()) {
    chance = chance * 1664525U + 1013904223U;
    if ((chance >> 8U) % 100 == 0) {
      lock.lock();
      racer.Count();
      lock.unlock();
    } else {
      lock.lock_shared();
      racer.Count();
      lock.unlock_shared();
    }
  }
  return absl::OkStatus();
}

void BM_Keep_MostlyReads(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state, RunRace({.racer = "KeepReads",
                               .processes = 8,
                               .args = {std::to_string(state.range(0))},
                               .commands = {"evalsha", "eval"}}));
  }
}
BENCHMARK(BM_Keep_MostlyReads)->ArgName("keep")->Arg(0)->Arg(1)->Iterations(1)->UseManualTime();

}  // namespace
}  // namespace redlatch::bench
