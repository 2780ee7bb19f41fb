// ReentrantLock: uncontended, and reentered by the same thread.
#include <benchmark/benchmark.h>

#include <mutex>

#include "benchmarks/lock_loop.h"
#include "redlatch/reentrant_lock.h"

namespace redlatch::bench {
namespace {

void BM_ReentrantLock_Uncontended(benchmark::State& state) {
  ReentrantLock lock(SharedClient(), "reentrant_uncontended");
  const ServerTime server_time({"evalsha", "eval"});
  LockLoop(state, lock);
  server_time.Report(state);
}
BENCHMARK(BM_ReentrantLock_Uncontended)->UseRealTime();

// Compare BM_AbslMutex: there is no round trip.
void BM_ReentrantLock_Reentry(benchmark::State& state) {
  ReentrantLock lock(SharedClient(), "reentrant_reentry");
  const std::scoped_lock outer(lock);
  LockLoop(state, lock);
}
BENCHMARK(BM_ReentrantLock_Reentry);

}  // namespace
}  // namespace redlatch::bench
