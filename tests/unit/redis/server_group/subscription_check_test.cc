#include "src/base/clock.h"
#include "src/redis/server_group/single_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

using Verdict = SubscriptionCheck::Verdict;

struct SubscriptionCheckTest : ::testing::Test {
  Verdict Tell(bool has_subscriber) {
    now_ = now_ + absl::Milliseconds(60);
    return check_.Note(has_subscriber, now_, live_, now_);
  }
  void ExpectRound(Verdict end) {
    EXPECT_EQ(Tell(false), Verdict::kNothingNew);
    EXPECT_EQ(Tell(false), Verdict::kNothingNew);
    EXPECT_EQ(Tell(false), end);
  }
  void BecomeUnsubscribed() {
    ExpectRound(Verdict::kReplaceConnections);
    ExpectRound(Verdict::kReplaceConnections);
    ExpectRound(Verdict::kUnsubscribed);
    EXPECT_TRUE(check_.unsubscribed());
  }

  SubscriptionCheck check_;
  base::Instant live_ = base::Instant::FromNanos(1);
  base::Instant now_ = base::Instant::FromNanos(1'000'000'000);
};

TEST_F(SubscriptionCheckTest, OneSubscriberResetsTheCount) {
  ExpectRound(Verdict::kReplaceConnections);
  ExpectRound(Verdict::kReplaceConnections);
  EXPECT_EQ(Tell(true), Verdict::kNothingNew);
  BecomeUnsubscribed();
  EXPECT_EQ(Tell(true), Verdict::kSubscribedAgain);
  EXPECT_FALSE(check_.unsubscribed());
  EXPECT_EQ(Tell(true), Verdict::kNothingNew);
}

TEST_F(SubscriptionCheckTest, IgnoresQuestionsBeforeSubscription) {
  live_ = base::Instant::Infinite();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Tell(false), Verdict::kNothingNew);
  live_ = now_ + absl::Seconds(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Tell(false), Verdict::kNothingNew);
}

TEST_F(SubscriptionCheckTest, ManyWaitersAtOnceCountAsOne) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(check_.Note(false, now_, live_, now_), Verdict::kNothingNew);
  }
}

TEST_F(SubscriptionCheckTest, UnsubscribedClientReconnectsLess) {
  BecomeUnsubscribed();
  const base::Instant began = now_;
  int tries = 0;
  while (now_ < began + absl::Hours(1)) {
    if (Tell(false) == Verdict::kReplaceConnections) ++tries;
  }
  EXPECT_GE(tries, 60);
  EXPECT_LE(tries, 130);
}

}  // namespace
}  // namespace redlatch::redis
