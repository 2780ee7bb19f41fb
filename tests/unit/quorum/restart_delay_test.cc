// Nodes of a quorum that restart, empty or with an old data set: a node that grants nothing until
// the longest lease has passed lets no leases overlap. REDLATCH_MODEL_SEED=n replays one seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_scale.h"
#include "tests/unit/quorum/random_quorum.h"

namespace redlatch::quorum {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kSchedules = 10'000;

Perils WithDelay(Micros delay) {
  return {.hazardous = true, .restarts = true, .restart_delay = delay};
}

TEST(RestartDelay, LeasesDoNotOverlapWithADelayOfTheLongestLease) {
  const Outcome outcome = RunSchedules("a delay of a lease", support::Scaled(kSchedules),
                                       WithDelay(ModelClient::kLease));
  EXPECT_THAT(outcome.overlapping, IsEmpty());
  EXPECT_THAT(outcome.falling, IsEmpty());
  EXPECT_GT(outcome.leases, outcome.schedules / 2);
  EXPECT_GT(outcome.renewals, outcome.schedules / 4);
}

TEST(RestartDelay, LeasesOverlapWithADelayThatIsTooShort) {
  const Outcome outcome =
      RunSchedules("a quarter of it", kSchedules, WithDelay(ModelClient::kLease / 4));
  EXPECT_THAT(outcome.overlapping, Not(IsEmpty()));
}

TEST(RestartDelay, LeasesOverlapWithoutADelay) {
  const Outcome outcome = RunSchedules("no delay", kSchedules, WithDelay(0));
  EXPECT_THAT(outcome.overlapping, Not(IsEmpty()));
}

}  // namespace
}  // namespace redlatch::quorum
