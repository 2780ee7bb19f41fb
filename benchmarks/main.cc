// redlatch_benchmark [--awake] [--benchmark_...]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "benchmarks/mood.h"
#include "benchmarks/process_race.h"

int main(int argc, char** argv) {
  if (const auto exit_code = redlatch::bench::RunIfRacer(argc, argv)) return *exit_code;
  const auto end = std::remove(argv + 1, argv + argc, std::string_view("--awake"));
  const bool awake = end != argv + argc;
  argc = static_cast<int>(end - argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::optional<redlatch::bench::Awake> kept;
  if (awake) kept.emplace();
  benchmark::AddCustomContext("processors", awake ? "kept awake" : "sleep when idle");
  benchmark::AddCustomContext("raw pair", redlatch::bench::RawPairTime());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
