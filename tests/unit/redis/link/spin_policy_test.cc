#include "src/redis/link/spin_policy.h"

#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

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
    off.Received(64);
    off.Completed(now_, now_ + absl::Microseconds(10));
  }
}

TEST_F(SpinPolicyTest, CostsAlmostNothingWhereTheServerIsSlow) {
  const absl::Duration spun = Live(absl::Milliseconds(50), 1000);
  EXPECT_LT(spun, 1000 * absl::Milliseconds(50) * 0.0005);
}

TEST_F(SpinPolicyTest, ACrowdIsWaitedForLonger) {
  Crowd(64, 100);
  EXPECT_GT(spin_.Length(), 10 * kLength);
  EXPECT_LT(spin_.Length(), absl::Milliseconds(2));
}

TEST_F(SpinPolicyTest, NowAndThenTwoAtOnceAreNoCrowd) {
  for (int i = 0; i < 100; ++i) {
    Crowd(2, 1);
    Crowd(1, 4);
    ASSERT_EQ(spin_.Length(), kLength);
  }
}

TEST_F(SpinPolicyTest, ThatALoneCallIsBetterOffAsleepSaysNothingOfACrowd) {
  Live(absl::Milliseconds(50), 100);
  EXPECT_EQ(spin_.Length(), absl::ZeroDuration());
  Crowd(64, 100);
  EXPECT_GT(spin_.Length(), absl::ZeroDuration());
}

constexpr absl::Duration kSpin = absl::Microseconds(80);

// A thread alone makes so many calls; whether it is eager after them.
bool EagerAfter(int calls, absl::Duration eager, absl::Duration patient, bool in_vain) {
  SpinPolicy policy(kSpin);
  base::Instant now;
  for (int i = 0; i < calls; ++i) {
    const base::Instant begun = now;
    policy.Begun();
    const absl::Duration length = policy.Length();
    if (length > absl::ZeroDuration() && in_vain) policy.InVain(length);
    now = now + (length > absl::ZeroDuration() ? eager : patient);
    policy.Received(1);
    policy.Completed(begun, now);
  }
  return policy.Length() > absl::ZeroDuration();
}

TEST(SpinPolicy, StaysEagerWhereThatIsFaster) {
  const auto eager_after = [](int eager_us, int patient_us, bool in_vain) {
    return EagerAfter(100, absl::Microseconds(eager_us), absl::Microseconds(patient_us), in_vain);
  };
  EXPECT_TRUE(eager_after(40, 60, /*in_vain=*/false));
  EXPECT_FALSE(eager_after(100, 120, /*in_vain=*/true)) << "the answer comes after the look";
  EXPECT_TRUE(eager_after(100, 300, /*in_vain=*/true)) << "sleep is very long";
}

TEST(SpinPolicy, ChargesLooksToNobodyButTheThreadThatLooked) {
  SpinPolicy policy(kSpin);
  base::Instant now;
  for (int i = 0; i < 100; ++i) {
    policy.Begun();
    policy.InVain(kSpin);  // of a call that came to nothing
    policy.Begun();
    const base::Instant begun = now;
    now = now + (policy.Length() > absl::ZeroDuration() ? absl::Microseconds(40)
                                                        : absl::Microseconds(60));
    policy.Received(1);
    policy.Completed(begun, now);
  }
  EXPECT_GT(policy.Length(), absl::ZeroDuration());
}

}  // namespace
}  // namespace redlatch::redis
