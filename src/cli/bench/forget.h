#ifndef REDLATCH_SRC_CLI_BENCH_FORGET_H_
#define REDLATCH_SRC_CLI_BENCH_FORGET_H_

#include "absl/status/status.h"
#include "src/cli/bench/run.h"

namespace redlatch::cli {

// Deletes the keys of a bench that is over, at all servers of a quorum.
absl::Status ForgetBench(const BenchPlan& plan);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_FORGET_H_
