#ifndef REDLATCH_SRC_CLI_LOOK_BREAK_H_
#define REDLATCH_SRC_CLI_LOOK_BREAK_H_

#include <string>
#include <vector>

#include "src/cli/term/page.h"

namespace redlatch::cli {

extern const Page kBreakPage;

// `redlatch break`, with what follows these words. The exit code.
int Break(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_BREAK_H_
