// What is said where the lock was not acquired.
#ifndef REDLATCH_SRC_CLI_RUN_REFUSAL_H_
#define REDLATCH_SRC_CLI_RUN_REFUSAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/cli/run_options.h"

namespace redlatch::cli {

// "1.5s", without digits that nobody reads.
std::string Rounded(absl::Duration time);

// Says on stderr why `what` was not acquired and how to mend that. The exit code.
int ExplainRefusal(const absl::Status& why, const RunOptions& options, const std::string& what);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_REFUSAL_H_
