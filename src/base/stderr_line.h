#ifndef REDLATCH_SRC_BASE_STDERR_LINE_H_
#define REDLATCH_SRC_BASE_STDERR_LINE_H_

#include <string>

namespace redlatch::base {

// Prints a line to stderr, at most one per second. The next line says how many were left out.
void PrintLine(const std::string& line);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_STDERR_LINE_H_
