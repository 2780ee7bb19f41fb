// What `redlatch bench` has measured, and what it prints of that.
#ifndef REDLATCH_SRC_CLI_BENCH_BENCH_H_
#define REDLATCH_SRC_CLI_BENCH_BENCH_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace redlatch::cli {

using Times = std::vector<absl::Duration>;
using Rates = std::vector<double>;  // per second, of each round

// A figure with redlatch, and with plain commands over a plain connection per thread. Empty: it
// was not measured.
template <typename T>
struct Compared {
  T redlatch = {};
  T plain = {};
};

// bench.page says what each figure is.
struct BenchFigures {
  std::string server;  // its URL without secrets
  Compared<Times> round_trips;
  Compared<Rates> one_thread;
  Compared<Rates> own_locks;
  Compared<Rates> one_lock;
  Compared<Times> hand_overs;
  bool interrupted = false;
};

std::string BenchText(const BenchFigures& figures);  // a table, and what it means
std::string BenchJson(const BenchFigures& figures);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_BENCH_H_
