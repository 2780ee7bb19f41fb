#include "src/redis/deployment/hearing.h"

#include "src/base/clock.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

using Verdict = Hearing::Verdict;

class HearingTest : public ::testing::Test {
 protected:
  Verdict Tell(bool has_subscriber) {
    now_ = now_ + absl::Milliseconds(60);
    return hearing_.Told(has_subscriber, now_, live_, now_);
  }
  void ExpectARound(Verdict end) {
    EXPECT_EQ(Tell(false), Verdict::kNothingNew);
    EXPECT_EQ(Tell(false), Verdict::kNothingNew);
    EXPECT_EQ(Tell(false), end);
  }
  void BecomeDeaf() {
    ExpectARound(Verdict::kMakeAnew);
    ExpectARound(Verdict::kMakeAnew);
    ExpectARound(Verdict::kDeaf);
    EXPECT_TRUE(hearing_.deaf());
  }

  Hearing hearing_;
  base::Instant live_ = base::Instant::FromNanos(1);
  base::Instant now_ = base::Instant::FromNanos(1'000'000'000);
};

TEST_F(HearingTest, OneSubscriberEndsWhateverWas) {
  ExpectARound(Verdict::kMakeAnew);
  ExpectARound(Verdict::kMakeAnew);
  EXPECT_EQ(Tell(true), Verdict::kNothingNew);
  BecomeDeaf();
  EXPECT_EQ(Tell(true), Verdict::kHearsAgain);
  EXPECT_FALSE(hearing_.deaf());
  EXPECT_EQ(Tell(true), Verdict::kNothingNew);
}

TEST_F(HearingTest, WhatWasAskedBeforeTheSubscriptionWasLiveDoesNotCount) {
  live_ = base::Instant::Infinite();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Tell(false), Verdict::kNothingNew);
  live_ = now_ + absl::Seconds(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Tell(false), Verdict::kNothingNew);
}

TEST_F(HearingTest, ManyWaitersThatAskAtOnceCountAsOne) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(hearing_.Told(false, now_, live_, now_), Verdict::kNothingNew);
  }
}

TEST_F(HearingTest, ADeafClientMakesItsConnectionsAnewMoreAndMoreSeldom) {
  BecomeDeaf();
  const base::Instant began = now_;
  int tries = 0;
  while (now_ < began + absl::Hours(1)) {
    if (Tell(false) == Verdict::kMakeAnew) ++tries;
  }
  EXPECT_GE(tries, 60);
  EXPECT_LE(tries, 130);
}

}  // namespace
}  // namespace redlatch::redis
