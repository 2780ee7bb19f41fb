// For the programs that run the pieces of a page: they check that a piece does what the page says.
#ifndef REDLATCH_DOCS_CODE_EXPECT_H_
#define REDLATCH_DOCS_CODE_EXPECT_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/client.h"

// If `holds` is false, prints the place of the call and ends the program. (Not every compiler has
// std::source_location.)
inline void Expect(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: not as expected\n", file, line);
  std::_Exit(1);
}

inline void ExpectOk(const absl::Status& status, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  Expect(status.ok(), file, line);
}

inline redlatch::Client Connected(const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("embedded:");
  ExpectOk(client.status(), file, line);
  return *std::move(client);
}

#endif  // REDLATCH_DOCS_CODE_EXPECT_H_
