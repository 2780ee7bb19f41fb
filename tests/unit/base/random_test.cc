#include "src/base/random.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

// The first number that a child of this process draws.
uint64_t DrawInChild() {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t bits = RandomBits();
    _exit(write(ends[1], &bits, sizeof bits) == sizeof bits ? 0 : 1);
  }
  close(ends[1]);
  uint64_t bits = 0;
  const bool whole = read(ends[0], &bits, sizeof bits) == sizeof bits;
  close(ends[0]);
  int status = 1;
  waitpid(child, &status, 0);
  return whole && status == 0 ? bits : 0;
}

TEST(RandomTest, ForksDrawDifferentNumbers) {
  RandomBits();
  std::set<uint64_t> seen = {0};
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(seen.insert(DrawInChild()).second);
  EXPECT_TRUE(seen.insert(RandomBits()).second);
}

TEST(NumbersTest, SecretsAreSipHashOfCounter) {
  constexpr Numbers::Key kKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  static_assert(Numbers::SipHash(kKey, 0x0706050403020100) == 0x93f5f5799a932462,
                "the authors' vector of eight bytes");
  Numbers numbers(kKey);
  EXPECT_EQ(numbers.Next(), 1U);
  EXPECT_EQ(numbers.NextSecret(), Numbers::SipHash(kKey, 2) >> 2U);
}

TEST(NumbersTest, SecretsOfTwoClientsDiffer) {
  Numbers one;
  Numbers other;
  std::set<uint64_t> seen = {0};
  uint64_t ones = 0;
  for (int i = 0; i < 1000; ++i) {
    for (Numbers* const numbers : {&one, &other}) {
      const uint64_t secret = numbers->NextSecret();
      EXPECT_TRUE(seen.insert(secret).second);
      ones |= secret;
    }
  }
  EXPECT_EQ(ones, ~uint64_t{0} >> 2U);
}

TEST(RandomTest, JitterIsBetweenHalfAndWhole) {
  for (const absl::Duration d : {absl::Nanoseconds(1000), absl::Seconds(1), absl::Hours(1000)}) {
    absl::Duration least = d;
    absl::Duration most = absl::ZeroDuration();
    for (int i = 0; i < 2000; ++i) {
      const absl::Duration jittered = Jittered(d);
      least = std::min(least, jittered);
      most = std::max(most, jittered);
    }
    EXPECT_GE(least, d / 2);
    EXPECT_LE(most, d);
    EXPECT_LT(least, d * 0.52) << "spreads over the whole range";
    EXPECT_GT(most, d * 0.98) << "spreads over the whole range";
  }
  EXPECT_EQ(Jittered(absl::ZeroDuration()), absl::ZeroDuration());
  EXPECT_EQ(Jittered(absl::InfiniteDuration()), absl::InfiniteDuration());
}

TEST(BackoffTest, DoublesUpToMaximumUntilReset) {
  Backoff backoff(absl::Milliseconds(10), absl::Milliseconds(65));
  for (const int expected : {10, 20, 40, 65, 65, 65}) {
    const absl::Duration delay = backoff.Next();
    EXPECT_GE(delay, absl::Milliseconds(expected) / 2);
    EXPECT_LE(delay, absl::Milliseconds(expected));
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(10));
  EXPECT_GE(backoff.Next(), absl::Milliseconds(10));
}

}  // namespace
}  // namespace redlatch::base
