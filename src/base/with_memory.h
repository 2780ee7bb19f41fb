#ifndef REDLATCH_SRC_BASE_WITH_MEMORY_H_
#define REDLATCH_SRC_BASE_WITH_MEMORY_H_

#include <new>

#include "src/base/clock.h"
#include "src/base/parker.h"

namespace redlatch::base {

// Takes a step that cannot be left out. If memory is lacking, it waits and takes the step again, so
// a step that throws std::bad_alloc must have changed nothing, or nothing that it does not do
// again.
template <class Step>
auto WithMemory(Step step) noexcept {
  for (;;) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      Parker().ParkUntil(Now() + absl::Milliseconds(1));
    }
  }
}

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_WITH_MEMORY_H_
