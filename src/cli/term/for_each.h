#ifndef REDLATCH_SRC_CLI_TERM_FOR_EACH_H_
#define REDLATCH_SRC_CLI_TERM_FOR_EACH_H_

#include <cstddef>
#include <functional>

namespace redlatch::cli {

// Calls work(0) to work(count - 1), `at_once` of them at the same time, on threads of their own.
// Returns when all have.
void ForEach(size_t count, size_t at_once, const std::function<void(size_t i)>& work);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_FOR_EACH_H_
