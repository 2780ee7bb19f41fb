#ifndef REDLATCH_TESTS_SIM_WORLD_RUNNER_H_
#define REDLATCH_TESTS_SIM_WORLD_RUNNER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "tests/sim/world/plan.h"
#include "tests/sim/world/world.h"

namespace redlatch::sim {

// Runs plans in child processes: a run leaves nothing to the next, begins with the same memory as
// it would in any other process, and may crash.
class Runner {
 public:
  explicit Runner(size_t jobs) : jobs_(jobs) {}

  // Runs the plans that `next` gives, until it returns false, several at a time.
  void Run(const std::function<bool(Plan& plan)>& next,
           const std::function<void(const Plan& plan, const RunResult& result)>& ended);
  static RunResult RunOne(const Plan& plan);
  // Runs a few plans in this process, so that its children find every script compiled.
  static void WarmUp();

  // The smallest plan that breaks the same promise, as edits of the plan.
  static std::string Shrink(const Plan& plan, const std::string& edits,
                            const std::string& violation);

 private:
  const size_t jobs_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_RUNNER_H_
