// Semaphore: uncontended; threads of one client; processes.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/lock_loop.h"
#include "benchmarks/process_race.h"
#include "redlatch/client.h"
#include "redlatch/semaphore.h"

namespace redlatch::bench {
namespace {

constexpr char kRaceSemaphore[] = "semaphore_race";
constexpr int64_t kRacePermits = 4;
constexpr int kThreads = 64;

std::vector<std::string> Commands() { return {"evalsha", "eval", "subscribe", "unsubscribe"}; }

// The interface that LockLoop() and TakeUntilOver() need.
class Locked {
 public:
  explicit Locked(Semaphore& semaphore) : semaphore_(semaphore) {}
  void lock() { semaphore_.acquire(); }
  void unlock() { semaphore_.release(); }

 private:
  Semaphore& semaphore_;
};

void BM_Semaphore_Uncontended(benchmark::State& state) {
  Semaphore semaphore(SharedClient(), "semaphore_uncontended", kRacePermits);
  Locked locked(semaphore);
  const ServerTime server_time({"evalsha", "eval"});
  LockLoop(state, locked);
  server_time.Report(state);
}
BENCHMARK(BM_Semaphore_Uncontended)->UseRealTime();

// Several permits at a time, by Acquire().
void BM_Semaphore_Permits(benchmark::State& state) {
  Semaphore semaphore(SharedClient(), "semaphore_permits", kRacePermits);
  const ServerTime server_time({"evalsha", "eval"});
  for (auto _ : state) {
    absl::StatusOr<Permit> permit = semaphore.Acquire(state.range(0));
    if (!permit.ok() || !permit->Release().ok()) {
      state.SkipWithError("no permit");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
  server_time.Report(state);
}
BENCHMARK(BM_Semaphore_Permits)->ArgName("permits")->Arg(1)->Arg(3)->UseRealTime();

// One client. The argument is the capacity: all threads fit, or few of them.
void BM_Semaphore_ManyThreads(benchmark::State& state) {
  Semaphore semaphore(SharedClient(), absl::StrCat("semaphore_threads:", state.range(0)),
                      state.range(0));
  Locked locked(semaphore);
  LockLoop(state, locked);
}
BENCHMARK(BM_Semaphore_ManyThreads)
    ->ArgName("capacity")
    ->Arg(kThreads)
    ->Arg(kRacePermits)
    ->UseRealTime()
    ->Threads(kThreads);

// One client per process; some have to wait.
REDLATCH_RACER(Semaphore) {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  Semaphore semaphore(*client, kRaceSemaphore, kRacePermits);
  Locked locked(semaphore);
  TakeUntilOver(racer, locked);
  return absl::OkStatus();
}

void BM_Semaphore_Processes(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state, RunRace({.racer = "Semaphore",
                               .processes = static_cast<int>(state.range(0)),
                               .commands = Commands()}));
  }
}
BENCHMARK(BM_Semaphore_Processes)->Apply(ForEachRaceSize);

}  // namespace
}  // namespace redlatch::bench
