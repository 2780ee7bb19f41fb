// What `redlatch` tells of itself. The words are in src/cli/*/*.page, which look like --help: a
// summary for the list of commands, synopsis, purpose, and then sections of terms and what they
// mean, the first of them examples. A line @... stands for what several pages say.
#ifndef REDLATCH_SRC_CLI_TERM_MANUAL_H_
#define REDLATCH_SRC_CLI_TERM_MANUAL_H_

#include <string>
#include <string_view>

namespace redlatch::cli {

std::string Overview();  // redlatch --help
// redlatch COMMAND --help, as wide as the terminal, and no wider than a page.
// REQUIRES: there is that command.
std::string Help(std::string_view command);
std::string ManPage();  // redlatch --man: what docs/man/redlatch.1 holds

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_MANUAL_H_
