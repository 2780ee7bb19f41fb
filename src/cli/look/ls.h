#ifndef REDLATCH_SRC_CLI_LOOK_LS_H_
#define REDLATCH_SRC_CLI_LOOK_LS_H_

#include <string>
#include <vector>

#include "src/cli/term/page.h"

namespace redlatch::cli {

extern const Page kLsPage;

// `redlatch ls`, with what follows these words. The exit code.
int Ls(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_LS_H_
