#ifndef REDLATCH_BENCHMARKS_LOCK_LOOP_H_
#define REDLATCH_BENCHMARKS_LOCK_LOOP_H_

#include <benchmark/benchmark.h>

#include "redlatch/client.h"

namespace redlatch::bench {

// The client of all benchmarks that need but one; connected.
Client& SharedClient();

// One acquisition and one release an iteration.
template <class Lock>
void LockLoop(benchmark::State& state, Lock& lock) {
  for (auto _ : state) {
    lock.lock();
    benchmark::ClobberMemory();
    lock.unlock();
  }
  state.SetItemsProcessed(state.iterations());
}

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_LOCK_LOOP_H_
