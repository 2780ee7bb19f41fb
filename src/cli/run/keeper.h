#ifndef REDLATCH_SRC_CLI_RUN_KEEPER_H_
#define REDLATCH_SRC_CLI_RUN_KEEPER_H_

#include <signal.h>

#include "src/cli/run/options.h"
#include "src/cli/run/watch.h"

namespace redlatch::cli {

struct KeeperTask {
  const RunOptions& options;
  const sigset_t& mask;  // that the command is to have; every signal is blocked now
  bool own_group;        // for the command
  int link;              // to the front: Forwarded comes in, a byte goes out when `watch` is set
  Watch* watch;
};

// The keeper's whole life, from the lock to the release. It ends with the exit code of
// `redlatch run`.
[[noreturn]] void RunKeeper(const KeeperTask& task);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_KEEPER_H_
