// How the tests of this folder control operator new, which their program replaces.
#ifndef REDLATCH_TESTS_REDIS_MEMORY_REPLACED_NEW_H_
#define REDLATCH_TESTS_REDIS_MEMORY_REPLACED_NEW_H_

#include <atomic>

namespace redlatch {

// The number of this thread's allocations until one fails; negative: none fails.
inline thread_local int allocations_left = -1;

// The same for all threads of the library together.
inline std::atomic<int> threads_allocations_left{-1};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_MEMORY_REPLACED_NEW_H_
