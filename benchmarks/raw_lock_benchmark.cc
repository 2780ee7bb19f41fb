// An uncontended lock: one acquisition and one release.
#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/lock_loop.h"
#include "benchmarks/raw_lock.h"
#include "benchmarks/shares.h"

namespace redlatch::bench {
namespace {

// Each thread has its own connection and key.
void BM_RawHiredis_Pair(benchmark::State& state) {
  const std::string key = absl::StrCat("raw_pair:", state.thread_index());
  absl::StatusOr<RawLock> lock = RawLock::Open(key, "id");
  if (!lock.ok()) state.SkipWithError(lock.status().ToString().c_str());
  std::optional<ServerTime> server_time;
  if (state.threads() == 1) server_time.emplace(std::vector<std::string>{"set", "evalsha"});
  static Shares shares;
  shares.Begin(state);
  for (auto _ : state) {
    const absl::StatusOr<bool> acquired = lock->TryAcquire();
    if (!acquired.ok() || !*acquired || !lock->Release().ok()) {
      state.SkipWithError("the pair failed");
      break;
    }
    shares.Count(state);
  }
  if (state.threads() > 1) shares.Report(state);
  state.SetItemsProcessed(state.iterations());
  if (server_time) server_time->Report(state);
}
BENCHMARK(BM_RawHiredis_Pair)->UseRealTime();
BENCHMARK(BM_RawHiredis_Pair)->UseRealTime()->MinTime(kLongEnoughForShares)->Threads(64);

}  // namespace
}  // namespace redlatch::bench
