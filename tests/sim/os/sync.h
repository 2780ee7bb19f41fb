// Mutexes, condition variables and joins of simulated threads.
#ifndef REDLATCH_TESTS_SIM_OS_SYNC_H_
#define REDLATCH_TESTS_SIM_OS_SYNC_H_

#include <pthread.h>

#include "tests/sim/os/kernel.h"

namespace redlatch::sim {

void LockMutex(Kernel& kernel, pthread_mutex_t* mutex);
bool TryLockMutex(Kernel& kernel, pthread_mutex_t* mutex);
void UnlockMutex(Kernel& kernel, pthread_mutex_t* mutex);

// Returns false if the deadline came first.
bool WaitForCondition(Kernel& kernel, pthread_cond_t* condition, pthread_mutex_t* mutex,
                      int64_t deadline);
void WakeCondition(Kernel& kernel, pthread_cond_t* condition, bool all);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_OS_SYNC_H_
