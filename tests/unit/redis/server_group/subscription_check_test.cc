#include "src/base/clock.h"
#include "src/redis/server_group/single_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

using Verdict = SubscriptionCheck::Verdict;

class HearingTest : public ::testing::Test {
 protected:
  Verdict Tell(bool has_subscriber) {
    now_ = now_ + absl::Milliseconds(60);
    return check_.Told(has_subscriber, now_, live_, now_);
  }
  void ExpectARound(Verdict end) {
    EXPECT_EQ(Tell(false), Verdict::kNothingNew);
    EXPECT_EQ(Tell(false), Verdict::kNothingNew);
    EXPECT_EQ(Tell(false), end);
  }
  void BecomeUnsubscribed() {
    ExpectARound(Verdict::kMakeAnew);
    ExpectARound(Verdict::kMakeAnew);
    ExpectARound(Verdict::kUnsubscribed);
    EXPECT_TRUE(check_.unsubscribed());
  }

  SubscriptionCheck check_;
  base::Instant live_ = base::Instant::FromNanos(1);
  base::Instant now_ = base::Instant::FromNanos(1'000'000'000);
};

TEST_F(HearingTest, OneSubscriberEndsWhateverWas) {
  ExpectARound(Verdict::kMakeAnew);
  ExpectARound(Verdict::kMakeAnew);
  EXPECT_EQ(Tell(true), Verdict::kNothingNew);
  BecomeUnsubscribed();
  EXPECT_EQ(Tell(true), Verdict::kSubscribedAgain);
  EXPECT_FALSE(check_.unsubscribed());
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
    EXPECT_EQ(check_.Told(false, now_, live_, now_), Verdict::kNothingNew);
  }
}

TEST_F(HearingTest, ADeafClientMakesItsConnectionsAnewMoreAndMoreSeldom) {
  BecomeUnsubscribed();
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
