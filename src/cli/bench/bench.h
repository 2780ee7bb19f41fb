#ifndef REDLATCH_SRC_CLI_BENCH_BENCH_H_
#define REDLATCH_SRC_CLI_BENCH_BENCH_H_

#include <string>
#include <vector>

#include "src/cli/term/page.h"

namespace redlatch::cli {

// `redlatch bench`, with what follows these words. The exit code.
int Bench(const std::vector<std::string>& words);

extern const Page kBenchPage;

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_BENCH_H_
