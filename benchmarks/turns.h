// Compares two ways of doing the same, turn by turn.
#ifndef REDLATCH_BENCHMARKS_TURNS_H_
#define REDLATCH_BENCHMARKS_TURNS_H_

#include <benchmark/benchmark.h>

#include <functional>

namespace redlatch::bench {

// Runs `work` `rounds` times, with and without, in an order that changes from turn to turn. It
// reports medians over turns, of the ratio too, because other users of the processors disturb only
// few turns.
using Work = std::function<void(int rounds)>;
void Compare(benchmark::State& state, int rounds, const Work& without, const Work& with);

template <class Lock>
void Pairs(Lock& lock, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    lock.lock();
    benchmark::ClobberMemory();
    lock.unlock();
  }
}

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_TURNS_H_
