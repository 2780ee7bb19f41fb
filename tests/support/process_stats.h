#ifndef REDLATCH_TESTS_SUPPORT_PROCESS_STATS_H_
#define REDLATCH_TESTS_SUPPORT_PROCESS_STATS_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/time/time.h"

namespace redlatch::support {

// What a process uses: this one, or the one with that pid. For bars such as "no descriptor or
// memory growth" and "an idle client uses no CPU". Of a process that is gone, all are 0.
int OpenDescriptors(pid_t pid = 0);
int64_t ResidentBytes(pid_t pid = 0);
int ThreadCount(pid_t pid = 0);

// CPU time used so far by all threads of this process, ended ones too, user and system; read twice
// and compare.
absl::Duration ProcessCpuTime();

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_PROCESS_STATS_H_
