// SimpleLock: uncontended; many threads with their own locks; threads and processes on one lock.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/lock_loop.h"
#include "benchmarks/process_race.h"
#include "benchmarks/shares.h"
#include "benchmarks/sleepers.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

namespace redlatch::bench {
namespace {

constexpr char kRaceLock[] = "simple_race";

void BM_SimpleLock_Uncontended(benchmark::State& state) {
  SimpleLock lock(SharedClient(), "simple_uncontended");
  const ServerTime server_time({"evalsha", "eval"});
  LockLoop(state, lock);
  server_time.Report(state);
}
BENCHMARK(BM_SimpleLock_Uncontended)->UseRealTime();

// One lock per thread, one client.
void BM_SimpleLock_ManyLocks(benchmark::State& state) {
  SimpleLock lock(SharedClient(), absl::StrCat("simple_many:", state.thread_index()));
  static Shares shares;
  shares.Begin(state);
  for (auto _ : state) {
    lock.lock();
    benchmark::ClobberMemory();
    lock.unlock();
    shares.Count(state);
  }
  shares.Report(state);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SimpleLock_ManyLocks)->UseRealTime()->MinTime(kLongEnoughForShares)->Threads(64);

// One lock, one client.
void BM_SimpleLock_Threads(benchmark::State& state) {
  SimpleLock lock(SharedClient(), "simple_threads");
  LockLoop(state, lock);
}
BENCHMARK(BM_SimpleLock_Threads)->UseRealTime()->Threads(2)->Threads(4)->Threads(16);

// One lock, one client per process, with turns or in strict order. Stamps show how long a handover
// takes.
constexpr char kStrictOrder[] = "strict order";
REDLATCH_RACER(SimpleLock) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  LockOptions options;
  if (racer.args().at(0) == kStrictOrder) options.turn = absl::ZeroDuration();
  SimpleLock lock(*client, kRaceLock, options);
  racer.AwaitStart();
  while (racer.Running()) {
    lock.lock();
    racer.SampleSinceStamp();
    racer.Count();
    racer.Stamp();
    lock.unlock();
  }
  return absl::OkStatus();
}

absl::StatusOr<RaceResult> Race(int processes, const std::string& order) {
  return RunRace({.racer = "SimpleLock",
                  .processes = processes,
                  .args = {order},
                  .commands = {"evalsha", "eval", "subscribe", "unsubscribe"}});
}

void BM_SimpleLock_Processes(benchmark::State& state) {
  for (auto _ : state) ReportRace(state, Race(static_cast<int>(state.range(0)), "turns"));
}
BENCHMARK(BM_SimpleLock_Processes)->Apply(ForEachRaceSize);

void BM_StrictOrder_Processes(benchmark::State& state) {
  for (auto _ : state) ReportRace(state, Race(static_cast<int>(state.range(0)), kStrictOrder));
}
BENCHMARK(BM_StrictOrder_Processes)->Apply(ForEachRaceSize);

// From unlock() in one process to the return of lock() in another.
void BM_Handover_Latency(benchmark::State& state) {
  for (auto _ : state) {
    ReportSamples(state, Race(2, kStrictOrder));
  }
}
BENCHMARK(BM_Handover_Latency)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

// From unlock() to the return of lock() in a process that has slept meanwhile.
REDLATCH_RACER(ToASleeper) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  SimpleLock lock(*client, "simple_sleeper");
  racer.AwaitStart();
  while (racer.Running()) {
    lock.lock();
    racer.SampleSinceStamp();
    absl::SleepFor(kSleepersHold);
    racer.Stamp();
    lock.unlock();
    absl::SleepFor(kSleepersPause);
  }
  return absl::OkStatus();
}

void BM_SimpleLock_ToASleeper(benchmark::State& state) {
  for (auto _ : state) ReportSamples(state, RunRace(SleepersRace("ToASleeper")));
}
BENCHMARK(BM_SimpleLock_ToASleeper)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace redlatch::bench
