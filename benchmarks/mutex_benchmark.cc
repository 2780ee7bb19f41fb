// An uncontended lock within one process: the lower limit for everything else.
#include <benchmark/benchmark.h>

#include <mutex>
#include <shared_mutex>

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

// Readers, for comparison with BM_ReadWrite_ReadJoin.
void BM_StdSharedMutex(benchmark::State& state) {
  static std::shared_mutex mutex;
  for (auto _ : state) {
    mutex.lock_shared();
    benchmark::ClobberMemory();
    mutex.unlock_shared();
  }
  state.counters["acquisitions/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_StdSharedMutex)->UseRealTime()->Threads(1)->Threads(4);

}  // namespace
}  // namespace redlatch::bench
