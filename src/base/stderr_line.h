#ifndef REDLATCH_SRC_BASE_STDERR_LINE_H_
#define REDLATCH_SRC_BASE_STDERR_LINE_H_

#include <string>

namespace redlatch::base {

// Tells people something on stderr, at most one line a second; the next one says how many were left
// out.
void PrintLine(const std::string& line);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_STDERR_LINE_H_
