// The simplest lock with waiters: a refused process sleeps, and tries again.
#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/process_race.h"
#include "benchmarks/raw_lock.h"

namespace redlatch::bench {
namespace {

// The sleep between two attempts is redsync's default. Longer sleeps wait longer, shorter ones cost
// the server more.
constexpr int kShortestSleepMs = 50;
constexpr int kLongestSleepMs = 250;

// A process sleeps after its release, too. So a sample is the time for which a lock was free that
// another process wanted.
REDLATCH_RACER(RawPolling) {
  absl::StatusOr<RawLock> lock = RawLock::Open("raw_polling", absl::StrCat(racer.index()));
  if (!lock.ok()) return lock.status();
  std::mt19937 random(racer.index());
  std::uniform_int_distribution<int> sleep_ms(kShortestSleepMs, kLongestSleepMs);
  racer.AwaitStart();
  while (racer.Running()) {
    absl::SleepFor(absl::Milliseconds(sleep_ms(random)));
    const absl::StatusOr<bool> acquired = lock->TryAcquire();
    if (!acquired.ok()) return acquired.status();
    if (!*acquired) continue;
    racer.SampleSinceStamp();
    racer.Count();
    racer.Stamp();
    if (absl::Status status = lock->Release(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// From the release in one process to the acquisition in another.
void BM_RawPolling_Latency(benchmark::State& state) {
  for (auto _ : state) {
    ReportSamples(state,
                  RunRace({.racer = "RawPolling", .processes = 2, .duration = absl::Seconds(10)}));
  }
}
BENCHMARK(BM_RawPolling_Latency)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

// All processes want one lock, and try again after a millisecond.
REDLATCH_RACER(RawPollingHot) {
  absl::StatusOr<RawLock> lock = RawLock::Open("raw_polling_hot", absl::StrCat(racer.index()));
  if (!lock.ok()) return lock.status();
  racer.AwaitStart();
  while (racer.Running()) {
    const absl::StatusOr<bool> acquired = lock->TryAcquire();
    if (!acquired.ok()) return acquired.status();
    if (!*acquired) {
      absl::SleepFor(absl::Milliseconds(1));
      continue;
    }
    racer.Count();
    if (absl::Status status = lock->Release(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void BM_RawPolling_Processes(benchmark::State& state) {
  for (auto _ : state) {
    ReportRace(state, RunRace({.racer = "RawPollingHot",
                               .processes = static_cast<int>(state.range(0)),
                               .commands = {"set", "evalsha", "eval"}}));
  }
}
BENCHMARK(BM_RawPolling_Processes)->Apply(ForEachRaceSize);

}  // namespace
}  // namespace redlatch::bench
