// How evenly the threads of a benchmark progress.
#ifndef REDLATCH_BENCHMARKS_SHARES_H_
#define REDLATCH_BENCHMARKS_SHARES_H_

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace redlatch::bench {

// A thread's count is a random walk, as the kernel moves threads between processors. After half a
// second, the slowest of 64 has about 0.8 of an equal share; after four seconds, 0.96.
inline constexpr double kLongEnoughForShares = 2;  // seconds

// All threads of a benchmark have the same number of iterations. So a share is what a thread has
// done when the first one finishes. One object serves all threads; each calls Begin() before its
// loop, Count() at the end of each iteration, and Report() after the loop.
class Shares {
 public:
  void Begin(const benchmark::State& state) {
    Mine(state).store(0, std::memory_order_relaxed);
    if (state.thread_index() == 0) through_.store(false, std::memory_order_relaxed);
  }

  void Count(const benchmark::State& state) {
    const int64_t done = Mine(state).fetch_add(1, std::memory_order_relaxed) + 1;
    if (done < static_cast<int64_t>(state.max_iterations) || through_.exchange(true)) return;
    at_end_.clear();
    for (int i = 0; i < state.threads(); ++i) {
      at_end_.push_back(done_[static_cast<size_t>(i)].value.load(std::memory_order_relaxed));
    }
  }

  // `smallest_share`: the share of the slowest thread, where 1 is an equal share. `share_ratio`:
  // the slowest thread's count divided by the fastest one's.
  void Report(benchmark::State& state) const {
    if (state.thread_index() != 0 || at_end_.empty()) return;
    const auto [least, greatest] = std::minmax_element(at_end_.begin(), at_end_.end());
    const int64_t all = std::accumulate(at_end_.begin(), at_end_.end(), int64_t{0});
    const auto small = static_cast<double>(*least);
    state.counters["smallest_share"] =
        small * static_cast<double>(at_end_.size()) / static_cast<double>(all);
    state.counters["share_ratio"] = small / static_cast<double>(*greatest);
  }

 private:
  struct alignas(64) Slot {
    std::atomic<int64_t> value;
  };
  static constexpr size_t kMostThreads = 64;

  std::atomic<int64_t>& Mine(const benchmark::State& state) {
    return done_[static_cast<size_t>(state.thread_index())].value;
  }

  std::array<Slot, kMostThreads> done_{};
  std::atomic<bool> through_{false};
  // Written by the first thread that finishes. The loop's end is a barrier.
  std::vector<int64_t> at_end_;
};

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_SHARES_H_
