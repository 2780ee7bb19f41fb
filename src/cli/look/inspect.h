#ifndef REDLATCH_SRC_CLI_LOOK_INSPECT_H_
#define REDLATCH_SRC_CLI_LOOK_INSPECT_H_

#include <string>
#include <vector>

#include "src/cli/term/page.h"

namespace redlatch::cli {

extern const Page kInspectPage;

// `redlatch inspect`, with what follows these words. The exit code.
int Inspect(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_INSPECT_H_
