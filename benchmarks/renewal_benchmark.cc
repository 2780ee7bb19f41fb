// 10,000 held locks: processor time and memory for keeping them.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/resources.h"

namespace redlatch::bench {
namespace {

constexpr int kLocks = 10000;

// The argument is how many seconds they are held; the lease is the default of 30 s.
void BM_Renew_10000(benchmark::State& state) {
  const absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return state.SkipWithError(client.status().ToString().c_str());
  for (auto _ : state) {
    const int64_t memory_before = support::ResidentBytes();
    const int threads_before = support::ThreadCount();
    std::vector<std::unique_ptr<SimpleLock>> locks;
    std::vector<Lease> leases;
    leases.reserve(kLocks);
    for (int i = 0; i < kLocks; ++i) {
      locks.push_back(std::make_unique<SimpleLock>(*client, absl::StrCat("renew:", i)));
      absl::StatusOr<Lease> lease = locks.back()->Acquire();
      if (!lease.ok()) return state.SkipWithError(lease.status().ToString().c_str());
      leases.push_back(*std::move(lease));
    }
    const int64_t memory = support::ResidentBytes() - memory_before;
    const absl::Duration cpu_before = support::ProcessCpuTime();
    const base::Instant began = base::Now();
    base::Parker().ParkUntil(began + absl::Seconds(state.range(0)));
    const absl::Duration cpu = support::ProcessCpuTime() - cpu_before;
    int lost = 0;
    for (const Lease& lease : leases) lost += lease.valid() ? 0 : 1;
    state.counters["core_percent"] = 100 * absl::FDivDuration(cpu, base::Now() - began);
    state.counters["bytes_per_lock"] = static_cast<double>(memory) / kLocks;
    state.counters["threads"] = support::ThreadCount() - threads_before;
    state.counters["lost"] = lost;
  }
}
BENCHMARK(BM_Renew_10000)->Arg(35)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace redlatch::bench
