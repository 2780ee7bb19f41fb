#ifndef REDLATCH_SRC_CLI_RUN_FRONT_H_
#define REDLATCH_SRC_CLI_RUN_FRONT_H_

#include "src/cli/run/options.h"

namespace redlatch::cli {

// Runs the command under the lock. The exit code.
int RunFront(const RunOptions& options);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_FRONT_H_
