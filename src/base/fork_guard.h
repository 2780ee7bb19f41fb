#ifndef REDLATCH_SRC_BASE_FORK_GUARD_H_
#define REDLATCH_SRC_BASE_FORK_GUARD_H_

#include <atomic>
#include <cstdint>

namespace redlatch::base {

// Tells whether this process is still the one that made the guard, or a child that fork() made
// of it. The answer costs one load: it reads a page that the kernel empties in every child
// (MADV_WIPEONFORK), so that a raw clone(2) is noticed as well as fork(2).
//
// What belongs to the parent must then be left alone: the child has none of its threads, its
// mutexes may be held for ever, and a byte written to a shared socket would corrupt the parent's
// stream.
class ForkGuard {
 public:
  ForkGuard();
  bool InForkedChild() const { return process_->load(std::memory_order_relaxed) != made_in_; }

 private:
  const std::atomic<uint64_t>* process_;  // this process's own random number; 0 after a fork
  uint64_t made_in_;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_FORK_GUARD_H_
