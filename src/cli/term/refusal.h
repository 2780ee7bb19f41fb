#ifndef REDLATCH_SRC_CLI_TERM_REFUSAL_H_
#define REDLATCH_SRC_CLI_TERM_REFUSAL_H_

#include "absl/status/status.h"

namespace redlatch::cli {

// Says on stderr why the library or the server won't do it, and how to mend that. The exit code;
// kNo for kNotFound.
int Refuse(const absl::Status& why);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_REFUSAL_H_
