#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_SCHEDULES_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_SCHEDULES_H_

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/test_scale.h"

namespace redlatch::engine {

// What is counted over all schedules; of each, some must have come for every schedule that ran, or
// for every so many, as not all of them have such a thing.
template <class Schedule>
struct Sum {
  std::string what;
  std::function<int64_t(const Schedule&)> of;
  int in_so_many = 1;
  int64_t sum = 0;
};

// Runs the schedules of seeds 1 to `count`, scaled, until one fails; or the one of
// REDLATCH_MODEL_SEED, which tells its events.
template <class Schedule>
void RunSchedules(int count, std::vector<Sum<Schedule>> sums) {
  if (const char* seed = std::getenv("REDLATCH_MODEL_SEED")) {
    Schedule(std::strtoull(seed, nullptr, 10), /*verbose=*/true).Run();
    return;
  }
  int64_t events = 0;
  const int schedules = support::Scaled(count);
  for (int seed = 1; seed <= schedules; ++seed) {
    SCOPED_TRACE(absl::StrCat("REDLATCH_MODEL_SEED=", seed));
    Schedule schedule(static_cast<uint64_t>(seed), /*verbose=*/false);
    schedule.Run();
    events += schedule.events();
    for (auto& each : sums) each.sum += each.of(schedule);
    if (::testing::Test::HasFailure()) return;
  }
  std::cout << "seeds 1 to " << schedules << ": " << events << " events";
  for (const auto& each : sums) {
    std::cout << ", " << each.sum << " " << each.what;
    EXPECT_GT(each.sum, schedules / each.in_so_many) << each.what;
  }
  std::cout << "\n";
}

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_SCHEDULES_H_
