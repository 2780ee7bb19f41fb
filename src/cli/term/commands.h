// The commands of `redlatch`, each in a source of its own. They are given the words that follow
// their name, and return the exit code.
#ifndef REDLATCH_SRC_CLI_TERM_COMMANDS_H_
#define REDLATCH_SRC_CLI_TERM_COMMANDS_H_

#include <string>
#include <vector>

namespace redlatch::cli {

int Bench(const std::vector<std::string>& words);
int Break(const std::vector<std::string>& words);
int Capacity(const std::vector<std::string>& words);
int Doctor(const std::vector<std::string>& words);
int Inspect(const std::vector<std::string>& words);
int Ls(const std::vector<std::string>& words);
int Run(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_COMMANDS_H_
