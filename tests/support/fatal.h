#ifndef REDLATCH_TESTS_SUPPORT_FATAL_H_
#define REDLATCH_TESTS_SUPPORT_FATAL_H_

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace redlatch::support {

// Ends the process with a message, if no test can go on.
[[noreturn]] inline void Fatal(const std::string& message) {
  std::fprintf(stderr, "redlatch test support: %s\n", message.c_str());
  std::abort();
}

// Calls Fatal() with the meaning of errno unless `succeeded`.
inline void CheckErrno(bool succeeded, const char* what) {
  if (!succeeded) Fatal(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_FATAL_H_
