#ifndef REDLATCH_BENCHMARKS_LOCK_LOOP_H_
#define REDLATCH_BENCHMARKS_LOCK_LOOP_H_

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/bench_server.h"
#include "redlatch/client.h"

namespace redlatch::bench {

// A connected client, for all benchmarks that need only one.
Client& SharedClient();

// The server's time per iteration for these commands since the object was made: `server_us`. For
// benchmarks with one thread.
class ServerTime {
 public:
  explicit ServerTime(std::vector<std::string> commands)
      : commands_(std::move(commands)), before_(StatsOf(commands_)) {}
  void Report(benchmark::State& state) const {
    const int64_t spent = StatsOf(commands_).microseconds - before_.microseconds;
    state.counters["server_us"] =
        static_cast<double>(spent) / static_cast<double>(state.iterations());
  }

 private:
  const std::vector<std::string> commands_;
  const CommandStats before_;
};

// One acquisition and one release per iteration.
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
