// Checks that a lock class of your own keeps the promises of every lock: see
// docs/tutorials/06-a-lock-of-your-own.md. It needs a server, and takes a few seconds.
#ifndef REDLATCH_CONFORMANCE_H_
#define REDLATCH_CONFORMANCE_H_

#include "absl/status/status.h"
#include "redlatch/internal/conformance_check.h"

namespace redlatch {

// Returns OK, or an error that begins with the promise that the class broke.
//
//   EXPECT_TRUE(redlatch::CheckConformance({.make = ..., .url = "embedded:"}).ok());
inline absl::Status CheckConformance(const ConformanceOptions& options) {
  return internal::ConformanceCheck(options).Run();
}

}  // namespace redlatch

#endif  // REDLATCH_CONFORMANCE_H_
