// Times and sizes as people read them, and what a measured series comes to.
#ifndef REDLATCH_SRC_CLI_TERM_MEASURES_H_
#define REDLATCH_SRC_CLI_TERM_MEASURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace redlatch::cli {

// Three digits at most: "54 µs", "1.25 ms", "2 s", "3 min", "5 h", "2 days".
std::string ShortTime(absl::Duration time);
// "895 KiB".
std::string ShortSize(int64_t bytes);

struct Spread {
  absl::Duration p50;
  absl::Duration p99;
  absl::Duration worst;
};
// REQUIRES: there is at least one.
Spread SpreadOf(std::vector<absl::Duration> times);

// What a lease should not be below where a round trip took so long at worst: it is renewed each
// third, and has to outlive what a short measurement did not see.
absl::Duration ShortestLease(absl::Duration worst);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_MEASURES_H_
