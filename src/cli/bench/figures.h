// What `redlatch bench` has measured, and how it is read.
#ifndef REDLATCH_SRC_CLI_BENCH_FIGURES_H_
#define REDLATCH_SRC_CLI_BENCH_FIGURES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace redlatch::cli {

inline constexpr int kBenchThreads = 8;

using Times = std::vector<absl::Duration>;
using Rates = std::vector<double>;  // a second, of each round

// With redlatch, and what it is to be compared with: plain commands over a plain connection for
// each thread. Empty: not measured.
template <typename T>
struct Compared {
  T redlatch = {};
  T plain = {};
};

struct BenchFigures {
  std::string server;  // its URL without secrets
  // PING.
  Compared<Times> round_trips;
  // A lock taken and released; plain: SET NX PX, and a script that compares and deletes.
  Compared<Rates> one_thread;
  Compared<Rates> own_locks;  // kBenchThreads, each a lock of its own
  Compared<Rates> one_lock;   // kBenchThreads; plain: who fails tries again at once
  // From before the release until another client's thread has the lock; plain: from before a
  // PUBLISH until another thread, which waits for it, has the message.
  Compared<Times> hand_overs;
  bool interrupted = false;
};

// A table, and what it means.
std::string BenchText(const BenchFigures& figures);
std::string BenchJson(const BenchFigures& figures);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_FIGURES_H_
