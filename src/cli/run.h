#ifndef REDLATCH_SRC_CLI_RUN_H_
#define REDLATCH_SRC_CLI_RUN_H_

#include <string>
#include <vector>

namespace redlatch::cli {

// `redlatch run`, with what follows these words. The exit code.
int Run(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_H_
