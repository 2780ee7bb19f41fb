// MultiLock, uncontended: a number of names in one slot (with one name it is a SimpleLock, which is
// measured beside it), and locks that it takes one after the other.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/lock_loop.h"
#include "redlatch/multi_lock.h"
#include "redlatch/reentrant_lock.h"

namespace redlatch::bench {
namespace {

void BM_MultiLock_Uncontended(benchmark::State& state) {
  std::vector<std::string> names;
  for (int i = 0; i < state.range(0); ++i) names.push_back(absl::StrCat("multi_uncontended:", i));
  MultiLock lock(SharedClient(), names);
  const ServerTime server_time({"evalsha", "eval"});
  LockLoop(state, lock);
  server_time.Report(state);
}
BENCHMARK(BM_MultiLock_Uncontended)
    ->ArgName("names")
    ->Arg(1)
    ->Arg(2)
    ->Arg(3)
    ->Arg(8)
    ->Arg(64)
    ->UseRealTime();

void BM_MultiLock_OneAfterTheOther(benchmark::State& state) {
  ReentrantLock a(SharedClient(), "multi_apart:a");
  ReentrantLock b(SharedClient(), "multi_apart:b");
  ReentrantLock c(SharedClient(), "multi_apart:c");
  MultiLock lock({&a, &b, &c});
  const ServerTime server_time({"evalsha", "eval"});
  LockLoop(state, lock);
  server_time.Report(state);
}
BENCHMARK(BM_MultiLock_OneAfterTheOther)->UseRealTime();

}  // namespace
}  // namespace redlatch::bench
