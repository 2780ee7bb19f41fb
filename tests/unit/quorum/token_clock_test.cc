#include "src/quorum/quorum.h"
#include "tests/support/testing.h"

namespace redlatch::quorum {
namespace {

using base::Instant;

constexpr int64_t kClock = 1'795'000'000'000'000;
constexpr int64_t kMostLead = 1000;

struct TokenClockTest : ::testing::Test {
  Instant After(absl::Duration time) const { return began_ + time; }

  const Instant began_ = Instant::FromNanos(1'000'000'000);
  TokenClock clock_;
};

TEST_F(TokenClockTest, ProposesNothingBeforeFirstClock) {
  EXPECT_EQ(clock_.Propose(began_), 0);
  clock_.Note({}, false, began_);
  EXPECT_EQ(clock_.Propose(began_), 0);
}

TEST_F(TokenClockTest, IsAtMostOneMillisecondAhead) {
  clock_.Note({kClock, kClock + 30, kClock - 500}, true, began_);
  const int64_t proposed = clock_.Propose(After(absl::Milliseconds(5)));
  EXPECT_GT(proposed, kClock + 30 + 5000);
  EXPECT_LE(proposed, kClock + 30 + 5000 + kMostLead);
}

TEST_F(TokenClockTest, IgnoresClockFarAheadOfMost) {
  clock_.Note({kClock, kClock + 10'000'000, kClock + 5}, true, began_);
  EXPECT_LE(clock_.Propose(began_), kClock + 5 + kMostLead);
  // It is also ignored in a later round without other clocks.
  clock_.Note({kClock + 10'000'000}, false, began_);
  EXPECT_LE(clock_.Propose(began_), kClock + 5 + kMostLead);
}

TEST_F(TokenClockTest, RecoversFromClockFarAhead) {
  clock_.Note({kClock + 10'000'000}, false, began_);
  EXPECT_GT(clock_.Propose(began_), kClock + 10'000'000);
  clock_.Note({kClock, kClock + 1, kClock + 2}, true, began_);
  EXPECT_LE(clock_.Propose(began_), kClock + 2 + kMostLead);
}

TEST_F(TokenClockTest, IsNotSetBackBySlowClock) {
  clock_.Note({kClock + 900'000}, true, began_);
  clock_.Note({kClock, kClock, kClock}, true, began_);
  EXPECT_GT(clock_.Propose(began_), kClock + 900'000);
}

}  // namespace
}  // namespace redlatch::quorum
