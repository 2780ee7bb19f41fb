#include "src/redis/spin_policy.h"

#include <gtest/gtest.h>

namespace redlatch::redis {
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
constexpr World kAllTheSame = {absl::Microseconds(60), absl::Microseconds(60)};
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

TEST_F(WayToWaitTest, IsEagerFromTheFirstWait) { EXPECT_EQ(wait_.way(), WayToWait::kEager); }

TEST_F(WayToWaitTest, StaysEagerWhereThatPays) {
  Live(kSpinningPays, 100);
  EXPECT_GT(Live(kSpinningPays, 10'000), 9'900);
}

TEST_F(WayToWaitTest, TurnsPatientWhereThatIsCheaper) {
  EXPECT_LT(Live(kSpinningHurts, 200), 50);
  EXPECT_LT(Live(kSpinningHurts, 10'000), 100);
}

TEST_F(WayToWaitTest, BeingEagerMustPay) {
  Live(kAllTheSame, 200);
  EXPECT_LT(Live(kAllTheSame, 10'000), 100);
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

TEST_F(WayToWaitTest, NoticesThatSpinningNoLongerPaysThoughNothingBecameSlower) {
  Live({absl::Microseconds(60), absl::Microseconds(20)}, 100'000);
  Live({absl::Microseconds(15), absl::Microseconds(20)}, 10'000);
  EXPECT_LT(Live({absl::Microseconds(15), absl::Microseconds(20)}, 1'000), 100);
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

class SpinPolicyTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kLength = absl::Microseconds(80);

  // So many calls one after another, each answered alone after `latency`; how long was spun.
  absl::Duration Live(absl::Duration latency, int calls) {
    absl::Duration spun;
    for (int i = 0; i < calls; ++i) {
      spun += std::min(spin_.Length(), latency);
      const base::Instant begun = now_;
      now_ = now_ + latency;
      spin_.Received(1);
      spin_.Completed(begun, now_);
    }
    return spun;
  }

  // So many reads that bring as many replies each.
  void Crowd(size_t replies, int reads) {
    for (int i = 0; i < reads; ++i) spin_.Received(replies);
  }

  base::Instant now_ = base::Instant::FromNanos(1'000'000'000);
  SpinPolicy spin_{kLength};
};

TEST_F(SpinPolicyTest, WithoutALengthItNeverSpins) {
  SpinPolicy off(absl::ZeroDuration());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(off.Length(), absl::ZeroDuration());
    EXPECT_FALSE(off.GathersCrowd());
    off.Received(64);
    off.Completed(now_, now_ + absl::Microseconds(10));
  }
}

TEST_F(SpinPolicyTest, SpinsForItsLength) { EXPECT_EQ(spin_.Length(), kLength); }

TEST_F(SpinPolicyTest, CostsAlmostNothingWhereTheServerIsSlow) {
  const absl::Duration spun = Live(absl::Milliseconds(50), 1000);
  EXPECT_LT(spun, 1000 * absl::Milliseconds(50) * 0.0005);
}

TEST_F(SpinPolicyTest, ACrowdIsWaitedForLongerAndGathered) {
  EXPECT_FALSE(spin_.GathersCrowd());
  Crowd(64, 100);
  EXPECT_TRUE(spin_.GathersCrowd());
  EXPECT_GT(spin_.Length(), kLength);
  EXPECT_LT(spin_.Length(), absl::Milliseconds(1));
}

TEST_F(SpinPolicyTest, ACrowdThatLeftIsForgotten) {
  Crowd(64, 100);
  Crowd(1, 100);
  EXPECT_FALSE(spin_.GathersCrowd());
  EXPECT_EQ(spin_.Length(), kLength);
}

TEST_F(SpinPolicyTest, NowAndThenTwoAtOnceAreNoCrowd) {
  for (int i = 0; i < 100; ++i) {
    Crowd(2, 1);
    Crowd(1, 4);
    ASSERT_FALSE(spin_.GathersCrowd());
  }
}

TEST_F(SpinPolicyTest, ThatALoneCallIsBetterOffAsleepSaysNothingOfACrowd) {
  Live(absl::Milliseconds(50), 100);
  EXPECT_EQ(spin_.Length(), absl::ZeroDuration());
  Crowd(64, 100);
  EXPECT_TRUE(spin_.GathersCrowd());
  EXPECT_GT(spin_.Length(), absl::ZeroDuration());
}

}  // namespace
}  // namespace redlatch::redis
