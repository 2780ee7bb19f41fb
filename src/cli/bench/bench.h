// The figures of `redlatch bench`, and how it prints them.
#ifndef REDLATCH_SRC_CLI_BENCH_BENCH_H_
#define REDLATCH_SRC_CLI_BENCH_BENCH_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace redlatch::cli {

// Empty: it was not measured.
struct Figure {
  std::vector<absl::Duration> times = {};
  std::vector<double> rates = {};  // per second, of each round
};
struct Compared {
  Figure redlatch = {};
  Figure plain = {};  // plain commands over one plain connection per thread
};

// bench.page explains each figure.
struct BenchFigures {
  std::string server;  // its URL without secrets
  Compared round_trips, one_thread, own_locks, one_lock, handovers;
  bool interrupted = false;
};

std::string BenchText(const BenchFigures& figures);  // a table, and what it means
std::string BenchJson(const BenchFigures& figures);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_BENCH_H_
