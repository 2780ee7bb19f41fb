// From PUBLISH in one process to the message in another: the minimum for a handover.
#include <benchmark/benchmark.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/process_race.h"
#include "benchmarks/raw_lock.h"

namespace redlatch::bench {
namespace {

std::string ChannelOf(int racer) { return absl::StrCat("raw_publish:", racer); }

// Two processes send one message to and fro, so that no message waits behind another.
REDLATCH_RACER(RawPublish) {
  const RawConnection publisher = ConnectRaw();
  absl::StatusOr<RawSubscription> mine =
      RawSubscription::Open(ChannelOf(racer.index()), absl::Seconds(5));
  if (!mine.ok()) return mine.status();
  const std::string others = ChannelOf(1 - racer.index());
  const auto publish = [&] {
    racer.Stamp();
    return RawPublish(*publisher, others);
  };

  racer.AwaitStart();
  if (racer.index() == 0) {
    if (absl::Status status = publish(); !status.ok()) return status;
  }
  while (racer.Running()) {
    if (absl::Status status = mine->AwaitMessage(); !status.ok()) return status;
    racer.SampleSinceStamp();
    if (absl::Status status = publish(); !status.ok()) return status;
  }
  return publish();  // the other process may already wait
}

void BM_RawPublishDelivery(benchmark::State& state) {
  for (auto _ : state) {
    ReportSamples(state, RunRace({.racer = "RawPublish", .processes = 2}));
  }
}
BENCHMARK(BM_RawPublishDelivery)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace redlatch::bench
