#ifndef REDLATCH_BENCHMARKS_LATENCY_SAMPLES_H_
#define REDLATCH_BENCHMARKS_LATENCY_SAMPLES_H_

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace redlatch::bench {

// CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share.
int64_t MonotonicNanos();

struct LatencySummary {
  size_t count = 0;
  absl::Duration p50;
  absl::Duration p90;
  absl::Duration p99;
  absl::Duration max;
};

// Samples that several processes record and one evaluates. The object lives in memory that they
// share; zeroed memory is an object without samples. It holds the latest kCapacity samples.
//
// Record() may run anywhere at any time; Summary() only after the last Record().
class LatencySamples {
 public:
  void Record(int64_t nanos);
  LatencySummary Summary() const;

 private:
  static constexpr size_t kCapacity = size_t{1} << 18;

  std::atomic<size_t> recorded_;
  std::array<std::atomic<int64_t>, kCapacity> nanos_;
};

// Sets the counters p50_us, p90_us and p99_us, and p50 as the iteration's time (UseManualTime).
// Calls SkipWithError() if there is no sample.
void ReportLatency(benchmark::State& state, const LatencySummary& summary);

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_LATENCY_SAMPLES_H_
