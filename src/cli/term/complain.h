#ifndef REDLATCH_SRC_CLI_TERM_COMPLAIN_H_
#define REDLATCH_SRC_CLI_TERM_COMPLAIN_H_

#include <unistd.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace redlatch::cli {

// One line on stderr, in one piece.
inline void Complain(std::initializer_list<std::string_view> parts) {
  std::string line = "redlatch: ";
  for (const std::string_view part : parts) line += part;
  for (char& byte : line) {
    if (byte == '\n' || byte == '\r') byte = ' ';
  }
  line += '\n';
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_COMPLAIN_H_
