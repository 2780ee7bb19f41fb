#ifndef REDLATCH_SRC_BASE_MAJORITY_H_
#define REDLATCH_SRC_BASE_MAJORITY_H_

#include <cstddef>

namespace redlatch::base {

// Returns the least number that is more than half of `count`.
constexpr size_t Majority(size_t count) { return count / 2 + 1; }

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_MAJORITY_H_
