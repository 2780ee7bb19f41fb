#ifndef REDLATCH_SRC_DEMO_SUM_H_
#define REDLATCH_SRC_DEMO_SUM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/demo/crew.h"
#include "src/demo/store.h"

namespace redlatch::demo {

struct Sum {
  bool good = false;
  std::string text;
};

// Compares the number with the additions that were made: those that the store's journal has, one by
// one, and those that the workers have told of.
absl::StatusOr<Sum> CountUp(const FencedCounter& counter, const std::vector<Worker>& workers);

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_SUM_H_
