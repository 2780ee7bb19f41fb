#ifndef REDLATCH_SRC_BASE_FORK_GUARD_H_
#define REDLATCH_SRC_BASE_FORK_GUARD_H_

#include <atomic>
#include <cstdint>

#include "src/base/atomic.h"

namespace redlatch::base {

// Knows whether this process made the guard, or was forked from the one that did. A check costs one
// load: it reads a page that the kernel clears in every child (MADV_WIPEONFORK), so it notices a
// raw clone(2) as well as fork(2).
//
// A child must not touch what belongs to its parent: it has none of the parent's threads, mutexes
// may be locked forever, and a byte written to a shared socket would corrupt the parent's stream.
class ForkGuard {
 public:
  ForkGuard();
  bool InForkedChild() const { return process_->load(std::memory_order_relaxed) != made_in_; }

 private:
  const Atomic<uint64_t>* process_;  // this process's random number; 0 after a fork
  uint64_t made_in_;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_FORK_GUARD_H_
