// ReentrantReadWriteLock: uncontended; readers that join one another; processes that mostly read; a
// writer among readers.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/latency_samples.h"
#include "benchmarks/lock_loop.h"
#include "benchmarks/process_race.h"
#include "redlatch/client.h"
#include "redlatch/lease.h"
#include "redlatch/reentrant_read_write_lock.h"

namespace redlatch::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr char kRaceLock[] = "read_write_race";
constexpr int kThreads = 4;  // per process, if several threads read

std::vector<std::string> Commands() { return {"evalsha", "eval", "subscribe", "unsubscribe"}; }

void BM_ReadWrite_ReadUncontended(benchmark::State& state) {
  ReentrantReadWriteLock lock(SharedClient(), "read_write_uncontended");
  const ServerTime server_time({"evalsha", "eval"});
  LockLoop(state, lock.read_lock());
  server_time.Report(state);
}
BENCHMARK(BM_ReadWrite_ReadUncontended)->UseRealTime();

void BM_ReadWrite_WriteUncontended(benchmark::State& state) {
  ReentrantReadWriteLock lock(SharedClient(), "read_write_uncontended");
  const ServerTime server_time({"evalsha", "eval"});
  LockLoop(state, lock.write_lock());
  server_time.Report(state);
}
BENCHMARK(BM_ReadWrite_WriteUncontended)->UseRealTime();

// Another thread reads all the time, so each of these threads joins it. Compare BM_StdSharedMutex
// and BM_RawHiredis_Pair.
void BM_ReadWrite_ReadJoin(benchmark::State& state) {
  ReentrantReadWriteLock lock(SharedClient(), "read_write_join");
  std::optional<Lease> held;
  int64_t commands = 0;
  if (state.thread_index() == 0) {
    std::thread([&] { held = *lock.AcquireRead(); }).join();
    commands = -StatsOf(Commands()).calls;
  }
  LockLoop(state, lock.read_lock());
  const auto joins = static_cast<double>(state.iterations());
  state.counters["acquisitions/s"] = benchmark::Counter(joins, benchmark::Counter::kIsRate);
  if (state.thread_index() == 0) {
    commands += StatsOf(Commands()).calls;
    state.counters["commands"] = static_cast<double>(commands) / joins / state.threads();
  }
}
BENCHMARK(BM_ReadWrite_ReadJoin)->UseRealTime()->Threads(kThreads);

// The argument is how many of a hundred acquisitions read.
REDLATCH_RACER(ReadWriteMostlyReads) {
  unsigned reads = 0;
  if (racer.args().size() != 1 || !absl::SimpleAtoi(racer.args()[0], &reads)) {
    return absl::InvalidArgumentError("how many reads of a hundred?");
  }
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  ReentrantReadWriteLock lock(*client, kRaceLock);
  racer.AwaitStart();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, seed = static_cast<unsigned>(racer.index() * kThreads + i)] {
      std::mt19937 dice(seed);
      while (racer.Running()) {
        dice() % 100 < reads ? ReadOnce(racer, lock) : TakeOnce(racer, lock);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return absl::OkStatus();
}

void BM_ReadWrite_ReadMostly(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state, RunRace({.racer = "ReadWriteMostlyReads",
                               .processes = static_cast<int>(state.range(0)),
                               .args = {absl::StrCat(state.range(1))},
                               .commands = Commands()}));
  }
}
BENCHMARK(BM_ReadWrite_ReadMostly)
    ->ArgNames({"", "reads"})
    ->ArgsProduct({{1, 2, 4, 8}, {99, 90}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// The first process writes, with pauses in which the others get going. They read without a pause,
// for a millisecond each time.
REDLATCH_RACER(ReadWriteLatency) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  ReentrantReadWriteLock lock(*client, kRaceLock);
  std::minstd_rand dice;
  racer.AwaitStart();
  while (racer.Running()) {
    if (racer.index() == 0) {
      std::this_thread::sleep_for(microseconds(1000 + dice() % 3000));
      const int64_t asked = MonotonicNanos();
      lock.lock();
      const int64_t entered = MonotonicNanos();
      racer.Sample(entered - racer.LatestEndOfTasksBegunBy(asked));
      racer.Count();
      lock.unlock();
    } else {
      const int64_t asked = MonotonicNanos();
      lock.lock_shared();
      racer.Count();
      std::this_thread::sleep_for(milliseconds(1));
      racer.EndTask(asked);
      lock.unlock_shared();
    }
  }
  return absl::OkStatus();
}

// From lock() to its return, minus the remaining time of reads that were requested before.
void BM_ReadWrite_WriterLatency(benchmark::State& state) {
  for (auto _ : state) {
    const absl::StatusOr<RaceResult> result =
        RunRace({.racer = "ReadWriteLatency", .processes = 1 + static_cast<int>(state.range(0))});
    if (!result.ok()) {
      state.SkipWithError(result.status().ToString().c_str());
      break;
    }
    ReportLatency(state, result->samples);
    state.counters["reads/s"] = static_cast<double>(result->total() - result->counts[0]) /
                                absl::ToDoubleSeconds(result->duration);
  }
}
BENCHMARK(BM_ReadWrite_WriterLatency)
    ->Arg(8)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

REDLATCH_RACER(ReadWriteWriters) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  ReentrantReadWriteLock lock(*client, kRaceLock);
  TakeUntilOver(racer, lock);
  return absl::OkStatus();
}

void BM_ReadWrite_Writes_Processes(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state, RunRace({.racer = "ReadWriteWriters",
                               .processes = static_cast<int>(state.range(0)),
                               .commands = Commands()}));
  }
}
BENCHMARK(BM_ReadWrite_Writes_Processes)->Apply(ForEachRaceSize);

}  // namespace
}  // namespace redlatch::bench
