// LockOptions::tell_if_wanted: how soon a holder is told of a waiter, beside a handover.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/latency_samples.h"
#include "benchmarks/process_race.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"

namespace redlatch::bench {
namespace {

// Two processes pass a lock to and fro. The holder waits until it is told that the other process
// waits. Either this is measured, from Acquire() to the stop callback, or the handover that
// follows, from Release() to the return of Acquire().
constexpr char kTold[] = "told";
REDLATCH_RACER(Wanted) {
  constexpr absl::Duration kPause = absl::Microseconds(300);  // the other one has done its step
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  SimpleLock lock(*client, "wanted", {.turn = absl::ZeroDuration(), .tell_if_wanted = true});
  const bool measures_told = racer.args().at(0) == kTold;
  racer.AwaitStart();
  while (racer.Running()) {
    absl::SleepFor(kPause);
    if (measures_told) racer.Stamp();
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Milliseconds(100)});
    if (absl::IsDeadlineExceeded(lease.status())) continue;  // the other one is done
    if (!lease.ok()) return lease.status();
    if (!measures_told) racer.SampleSinceStamp();
    racer.Count();
    base::Parker parker;
    const std::stop_callback told(lease->wanted(), [&] {
      if (measures_told) racer.SampleSinceStamp();
      parker.Set(1);
    });
    parker.ParkUntil(base::Now() + absl::Milliseconds(100));
    absl::SleepFor(kPause);
    if (!measures_told) racer.Stamp();
    if (absl::Status released = lease->Release(); !released.ok()) return released;
  }
  return absl::OkStatus();
}

void Report(benchmark::State& state, const std::string& measured) {
  for (auto _ : state) {
    ReportSamples(state, RunRace({.racer = "Wanted",
                                  .processes = 2,
                                  .args = {measured},
                                  .commands = {"evalsha", "eval"}}));
  }
}

void BM_Wanted_Told(benchmark::State& state) { Report(state, kTold); }
BENCHMARK(BM_Wanted_Told)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void BM_Wanted_Handover(benchmark::State& state) { Report(state, "handover"); }
BENCHMARK(BM_Wanted_Handover)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace redlatch::bench
