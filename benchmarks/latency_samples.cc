#include "benchmarks/latency_samples.h"

#include <time.h>

#include <algorithm>
#include <vector>

namespace redlatch::bench {

static_assert(std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<size_t>::is_always_lock_free);

int64_t MonotonicNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void LatencySamples::Record(int64_t nanos) {
  const size_t index = recorded_.fetch_add(1, std::memory_order_relaxed) % kCapacity;
  nanos_[index].store(nanos, std::memory_order_relaxed);
}

LatencySummary LatencySamples::Summary() const {
  const size_t count = std::min(recorded_.load(), kCapacity);
  if (count == 0) return {};
  std::vector<int64_t> sorted(count);
  for (size_t i = 0; i < count; ++i) sorted[i] = nanos_[i].load(std::memory_order_relaxed);
  std::sort(sorted.begin(), sorted.end());
  const auto percentile = [&](size_t percent) {
    return absl::Nanoseconds(sorted[(count - 1) * percent / 100]);
  };
  return {.count = count,
          .p50 = percentile(50),
          .p90 = percentile(90),
          .p99 = percentile(99),
          .max = percentile(100)};
}

void ReportLatency(benchmark::State& state, const LatencySummary& summary) {
  if (summary.count == 0) {
    state.SkipWithError("no sample");
    return;
  }
  state.SetIterationTime(absl::ToDoubleSeconds(summary.p50));
  state.counters["samples"] = static_cast<double>(summary.count);
  state.counters["p50_us"] = absl::ToDoubleMicroseconds(summary.p50);
  state.counters["p90_us"] = absl::ToDoubleMicroseconds(summary.p90);
  state.counters["p99_us"] = absl::ToDoubleMicroseconds(summary.p99);
}

}  // namespace redlatch::bench
