#include "src/base/way_to_wait.h"

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

using Way = WayToWait::Way;

// What a wait costs in this world, in each way.
struct World {
  absl::Duration patient;
  absl::Duration eager;
  absl::Duration cost(Way way) const { return way == WayToWait::kEager ? eager : patient; }
};

constexpr World kSpinningPays = {absl::Microseconds(60), absl::Microseconds(20)};
constexpr World kSpinningHurts = {absl::Microseconds(60), absl::Microseconds(90)};
constexpr World kSlow = {absl::Milliseconds(50), absl::Milliseconds(50)};

class WayToWaitTest : public ::testing::Test {
 protected:
  // Lives through so many waits; how many of them were eager.
  int Live(const World& world, int waits) {
    int eager = 0;
    for (int i = 0; i < waits; ++i) {
      const Way way = wait_.way();
      if (way == WayToWait::kEager) ++eager;
      wait_.Record(world.cost(way));
    }
    return eager;
  }

  WayToWait wait_{{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
};

TEST_F(WayToWaitTest, StaysEagerWhereThatPays) {
  Live(kSpinningPays, 100);
  EXPECT_GT(Live(kSpinningPays, 10'000), 9'900);
}

TEST_F(WayToWaitTest, TurnsPatientWhereThatIsCheaper) {
  EXPECT_LT(Live(kSpinningHurts, 200), 50);
  EXPECT_LT(Live(kSpinningHurts, 10'000), 100);
}

TEST_F(WayToWaitTest, NoticesSoonThatTheServerHasBecomeSlow) {
  Live(kSpinningPays, 100'000);
  EXPECT_LT(Live(kSlow, 500), 250);
  EXPECT_LT(Live(kSlow, 1'000), 100);
}

TEST_F(WayToWaitTest, NoticesThatTheServerHasBecomeQuick) {
  Live(kSlow, 100'000);
  Live(kSpinningPays, 10'000);
  EXPECT_GT(Live(kSpinningPays, 1'000), 900);
}

TEST_F(WayToWaitTest, ARareHiccupChangesNothing) {
  Live(kSpinningPays, 1'000);
  int eager = 0;
  for (int i = 0; i < 100; ++i) {
    wait_.Record(absl::Seconds(1));
    eager += Live(kSpinningPays, 100);
  }
  EXPECT_GT(eager, 8'000);
  EXPECT_EQ(wait_.way(), WayToWait::kEager);
}

}  // namespace
}  // namespace redlatch::base
