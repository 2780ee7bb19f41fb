// What `redlatch` tells of itself, of all its commands.
#ifndef REDLATCH_SRC_CLI_TERM_MANUAL_H_
#define REDLATCH_SRC_CLI_TERM_MANUAL_H_

#include <span>
#include <string>

#include "src/cli/term/page.h"

namespace redlatch::cli {

std::string Overview(std::span<const Page* const> pages);  // redlatch --help
// redlatch --man: what docs/man/redlatch.1 holds.
std::string ManPage(std::span<const Page* const> pages);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_MANUAL_H_
