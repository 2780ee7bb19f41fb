#include "benchmarks/turns.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/clock.h"

namespace redlatch::bench {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void Compare(benchmark::State& state, int rounds, const Work& without, const Work& with) {
  std::vector<double> without_ns;
  std::vector<double> with_ns;
  std::vector<double> ratios;
  const auto measure = [rounds](const Work& work) {
    const base::Instant began = base::Now();
    work(rounds);
    return absl::ToDoubleNanoseconds(base::Now() - began) / rounds;
  };
  without(rounds);
  with(rounds);
  bool first = false;
  for (auto _ : state) {
    first = !first;
    if (first) without_ns.push_back(measure(without));
    with_ns.push_back(measure(with));
    if (!first) without_ns.push_back(measure(without));
    ratios.push_back(with_ns.back() / without_ns.back());
  }
  state.counters["without_ns"] = Median(std::move(without_ns));
  state.counters["with_ns"] = Median(std::move(with_ns));
  state.counters["ratio"] = Median(std::move(ratios));
}

}  // namespace redlatch::bench
