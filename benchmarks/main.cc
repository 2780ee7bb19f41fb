#include <benchmark/benchmark.h>

#include "benchmarks/process_race.h"

int main(int argc, char** argv) {
  if (const auto exit_code = redlatch::bench::RunIfRacer(argc, argv)) return *exit_code;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
