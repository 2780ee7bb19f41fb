#ifndef REDLATCH_SRC_CLI_LOOK_CAPACITY_H_
#define REDLATCH_SRC_CLI_LOOK_CAPACITY_H_

#include <string>
#include <vector>

#include "src/cli/term/page.h"

namespace redlatch::cli {

extern const Page kCapacityPage;

// `redlatch capacity`, with the words that follow. Returns the exit code.
int Capacity(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_CAPACITY_H_
