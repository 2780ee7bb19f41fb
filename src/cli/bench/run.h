#ifndef REDLATCH_SRC_CLI_BENCH_RUN_H_
#define REDLATCH_SRC_CLI_BENCH_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/cli/bench/figures.h"
#include "src/cli/bench/slice.h"
#include "src/cli/term/shards.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

struct BenchPlan {
  redis::Url url;
  std::string url_text;
  std::vector<Shard> shards;           // of a cluster, as they are when the bench begins
  std::string name;                    // what all keys begin with
  std::vector<std::string> own_names;  // of each thread\'s own lock: OwnNames()
  std::string channel;                 // for messages
  absl::Duration time;
};

// Measures one thing after another. In a cluster the threads' own locks are spread over the shards;
// if a slot moves meanwhile, plain commands fail. Where it ends early (a signal, or the server
// fails) `figures` hold what was measured to the end, and all locks are released. What is left are
// keys that ForgetBench() (forget.h) deletes.
absl::Status RunBench(const BenchPlan& plan, Slices& slices, BenchFigures* figures);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_RUN_H_
