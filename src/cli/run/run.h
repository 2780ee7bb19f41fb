#ifndef REDLATCH_SRC_CLI_RUN_RUN_H_
#define REDLATCH_SRC_CLI_RUN_RUN_H_

#include <string>
#include <vector>

#include "src/cli/term/page.h"

namespace redlatch::cli {

extern const Page kRunPage;

// `redlatch run`, with what follows these words. The exit code.
int Run(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_RUN_H_
