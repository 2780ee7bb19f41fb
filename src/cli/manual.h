// What `redlatch` tells of itself: --help and the man page, from the same words.
#ifndef REDLATCH_SRC_CLI_MANUAL_H_
#define REDLATCH_SRC_CLI_MANUAL_H_

#include <string>

namespace redlatch::cli {

std::string Overview();  // redlatch --help
std::string RunHelp();   // redlatch run --help
std::string ManPage();   // redlatch --man: what docs/man/redlatch.1 holds

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_MANUAL_H_
