#include "src/redis/link/spin_policy.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"

namespace redlatch::redis {
namespace {

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
  EXPECT_TRUE(EagerAfter(100, absl::Microseconds(40), absl::Microseconds(60), /*in_vain=*/false));
}

TEST(SpinPolicy, SleepsWhereTheAnswerComesAfterTheLook) {
  EXPECT_FALSE(EagerAfter(100, absl::Microseconds(100), absl::Microseconds(120), /*in_vain=*/true));
}

TEST(SpinPolicy, LooksThatFindNothingAreWorthItWhereSleepIsVeryLong) {
  EXPECT_TRUE(EagerAfter(100, absl::Microseconds(100), absl::Microseconds(300), /*in_vain=*/true));
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
