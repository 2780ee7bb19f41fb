// What the tests of this folder have operator new do, which is replaced in their program.
#ifndef REDLATCH_TESTS_REDIS_MEMORY_REPLACED_NEW_H_
#define REDLATCH_TESTS_REDIS_MEMORY_REPLACED_NEW_H_

namespace redlatch {

// Allocations of this thread until one fails; negative: none does.
inline thread_local int allocations_left = -1;

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_MEMORY_REPLACED_NEW_H_
