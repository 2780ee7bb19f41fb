// The figures of `redlatch bench`, and how it prints them.
#ifndef REDLATCH_SRC_CLI_BENCH_BENCH_H_
#define REDLATCH_SRC_CLI_BENCH_BENCH_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace redlatch::cli {

using Times = std::vector<absl::Duration>;
using Rates = std::vector<double>;  // per second, of each round

// A figure for redlatch, and one for plain commands over one plain connection per thread. An empty
// figure was not measured.
template <typename T>
struct Compared {
  T redlatch = {};
  T plain = {};
};

// bench.page explains each figure.
struct BenchFigures {
  std::string server;  // its URL without secrets
  Compared<Times> round_trips;
  Compared<Rates> one_thread;
  Compared<Rates> own_locks;
  Compared<Rates> one_lock;
  Compared<Times> handovers;
  bool interrupted = false;
};

std::string BenchText(const BenchFigures& figures);  // a table, and what it means
std::string BenchJson(const BenchFigures& figures);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_BENCH_H_
