// What a lock of one process costs its only user: the floor under everything else.
#include <benchmark/benchmark.h>

#include <mutex>

#include "absl/synchronization/mutex.h"

namespace redlatch::bench {
namespace {

void BM_StdMutex(benchmark::State& state) {
  std::mutex mutex;
  for (auto _ : state) {
    mutex.lock();
    benchmark::ClobberMemory();
    mutex.unlock();
  }
}
BENCHMARK(BM_StdMutex);

void BM_AbslMutex(benchmark::State& state) {
  absl::Mutex mutex;
  for (auto _ : state) {
    mutex.Lock();
    benchmark::ClobberMemory();
    mutex.Unlock();
  }
}
BENCHMARK(BM_AbslMutex);

}  // namespace
}  // namespace redlatch::bench
