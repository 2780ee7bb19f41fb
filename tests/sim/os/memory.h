#ifndef REDLATCH_TESTS_SIM_OS_MEMORY_H_
#define REDLATCH_TESTS_SIM_OS_MEMORY_H_

namespace redlatch::sim {

// From now on, blocks come from pages that nothing has used. A child process would have to copy
// the used ones, which costs more than most of what a run does.
void UseNewPages();

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_OS_MEMORY_H_
