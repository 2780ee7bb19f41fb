#ifndef REDLATCH_TESTS_SUPPORT_TEST_SCALE_H_
#define REDLATCH_TESTS_SUPPORT_TEST_SCALE_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace redlatch::support {

// The amount of work of a load test: `n` times $REDLATCH_TEST_SCALE (default: 1), but at least 1.
// Sanitizer runs set it below 1.
inline int Scaled(int n) {
  const char* scale = std::getenv("REDLATCH_TEST_SCALE");
  if (scale == nullptr || *scale == '\0') return n;
  return std::max(1, static_cast<int>(n * std::strtod(scale, nullptr)));
}

// True if bars are measured at full size and against this machine's clock: $REDLATCH_FULL_BARS.
inline bool FullBars() {
  const char* full = std::getenv("REDLATCH_FULL_BARS");
  return full != nullptr && *full != '\0';
}

// The seed of a random test. The test prints it if it fails; $REDLATCH_TEST_SEED repeats that run.
inline uint32_t Seed() {
  const char* seed = std::getenv("REDLATCH_TEST_SEED");
  if (seed == nullptr || *seed == '\0') return std::random_device()();
  return static_cast<uint32_t>(std::strtoul(seed, nullptr, 10));
}

inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoll(value, nullptr, 10);
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_TEST_SCALE_H_
