// What `redlatch run` was asked for.
#ifndef REDLATCH_SRC_CLI_RUN_OPTIONS_H_
#define REDLATCH_SRC_CLI_RUN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "src/cli/term/outcome.h"

namespace redlatch::cli {

enum class RunKind : uint8_t {
  kPlain,    // a SimpleLock
  kShared,   // the readers' side of a ReentrantReadWriteLock
  kWrite,    // its writer's side
  kPermits,  // some permits of a Semaphore
  kQuorum,   // a RedLock, of a URL that names a quorum of servers
};

struct RunOptions {
  std::string name;
  std::vector<std::string> command;
  RunKind kind = RunKind::kPlain;
  int64_t permits = 1;
  int64_t capacity = 0;
  absl::Duration wait = absl::InfiniteDuration();
  absl::Duration lease = absl::Seconds(30);
  // Between SIGTERM and SIGKILL.
  absl::Duration grace = absl::Seconds(10);
  bool kill_on_lost = true;
  int busy_code = kBusy;
  std::string server;  // a URL
};

// The exit code if that is all: see CommandLine::Parse().
std::optional<int> ParseRunOptions(const std::vector<std::string>& words, RunOptions* options);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_OPTIONS_H_
