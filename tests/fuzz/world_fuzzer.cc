// Schedules as bytes: they choose what is planned for a simulated world, and then what happens in
// which order, so that coverage finds the schedules that matter.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/random.h"
#include "tests/sim/world/plan.h"
#include "tests/sim/world/world.h"

namespace {

using redlatch::sim::Group;
using redlatch::sim::Plan;
using redlatch::sim::Random;

}  // namespace

// Killed clients free nothing.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const redlatch::sim::PlanLimits limits{
      .any_group = false, .group = data[0] % 4 == 0 ? Group::kQuorum : Group::kSingle};
  const size_t planned = (size - 1) / 2;
  const Plan plan = redlatch::sim::MakePlan(Random(data + 1, planned), limits);
  redlatch::sim::World world(plan, Random(data + 1 + planned, size - 1 - planned));
  const redlatch::sim::RunResult result = world.Run();
  if (result.violation.empty()) return 0;
  fprintf(stderr, "%s%s\n", Describe(plan).c_str(), result.violation.c_str());
  abort();
}
