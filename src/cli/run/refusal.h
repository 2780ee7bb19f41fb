// What is said if the lock was not acquired.
#ifndef REDLATCH_SRC_CLI_RUN_REFUSAL_H_
#define REDLATCH_SRC_CLI_RUN_REFUSAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/cli/run/hold.h"
#include "src/cli/run/options.h"

namespace redlatch::cli {

// "1.5s", without digits that nobody reads.
std::string Rounded(absl::Duration time);

// Says on stderr why the attempt failed and what to do about it. Returns the exit code.
int ExplainRefusal(const absl::Status& why, const RunOptions& options, const RunAttempt& attempt);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_REFUSAL_H_
