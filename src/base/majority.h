#ifndef REDLATCH_SRC_BASE_MAJORITY_H_
#define REDLATCH_SRC_BASE_MAJORITY_H_

#include <cstddef>

namespace redlatch::base {

// More than half of so many.
constexpr size_t Majority(size_t count) { return count / 2 + 1; }

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_MAJORITY_H_
