#include "src/lock/state/leader_view.h"

#include "src/base/clock.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

base::Instant AtMs(int64_t ms) { return base::Instant::FromNanos(ms * 1'000'000); }

LeaderNews Leads(uint64_t epoch, uint64_t revision = 1) {
  return {.epoch = epoch, .revision = revision, .client = "c", .value = absl::StrCat(revision)};
}
LeaderNews NoLeader(uint64_t epoch = 0) { return {.epoch = epoch}; }

constexpr absl::Duration kHeartbeat = absl::Seconds(10);
constexpr absl::Duration kLeft = absl::Seconds(25);
constexpr absl::Duration kNone = absl::ZeroDuration();

struct LeaderViewTest : ::testing::Test {
  // Asks, and delivers the reply. Returns true if the client has learned of a change.
  bool Ask(const LeaderNews& news, int64_t sent, int64_t answered, absl::Duration left = kLeft) {
    view_.OnAsked();
    return view_.OnReply(news, left, AtMs(sent), AtMs(answered));
  }
  std::string Known() const {
    const auto& known = view_.known();
    if (!known) return "nothing";
    return absl::StrCat(known->epoch, known->has_leader() ? "." + known->value : " is over");
  }

  LeaderView view_{kHeartbeat, absl::Milliseconds(100)};
};

TEST_F(LeaderViewTest, FirstReplyIsAChangeEvenWithoutLeader) {
  EXPECT_EQ(Known(), "nothing");
  EXPECT_TRUE(Ask(NoLeader(), 0, 1, kNone));
  EXPECT_EQ(Known(), "0 is over");
  EXPECT_FALSE(Ask(NoLeader(), 2, 3, kNone));
}

TEST_F(LeaderViewTest, OlderMessagesAreIgnored) {
  EXPECT_TRUE(view_.OnMessage(Leads(7), AtMs(1)));
  EXPECT_FALSE(view_.OnMessage(Leads(7), AtMs(2)));
  EXPECT_TRUE(view_.OnMessage(Leads(7, 3), AtMs(3)));
  EXPECT_FALSE(view_.OnMessage(Leads(7, 2), AtMs(4)));
  EXPECT_FALSE(view_.OnMessage(Leads(6, 9), AtMs(5)));
  EXPECT_FALSE(view_.OnMessage(NoLeader(6), AtMs(6)));
  EXPECT_EQ(Known(), "7.3");
}

TEST_F(LeaderViewTest, TermEndIsTheLastStateOfItsEpoch) {
  view_.OnMessage(Leads(7), AtMs(1));
  EXPECT_TRUE(view_.OnMessage(NoLeader(7), AtMs(2)));
  EXPECT_FALSE(view_.OnMessage(Leads(7, 9), AtMs(3)));
  EXPECT_EQ(Known(), "7 is over");
  EXPECT_TRUE(view_.OnMessage(Leads(8), AtMs(4)));
}

TEST_F(LeaderViewTest, ReplyMakesUpForLostMessages) {
  view_.OnMessage(Leads(7), AtMs(1));
  EXPECT_TRUE(Ask(Leads(9, 4), 2, 3));
  EXPECT_EQ(Known(), "9.4");
  EXPECT_TRUE(Ask(NoLeader(), 4, 5, kNone));
  EXPECT_EQ(Known(), "9 is over");
}

TEST_F(LeaderViewTest, AsksAgainIfReplyCrossedAMessage) {
  view_.OnAsked();
  view_.OnMessage(Leads(7), AtMs(5));
  EXPECT_FALSE(view_.OnReply(NoLeader(), kNone, AtMs(1), AtMs(6)));
  EXPECT_EQ(Known(), "7.1");
  EXPECT_LE(view_.due(), AtMs(16));
  EXPECT_TRUE(Ask(NoLeader(), 16, 17, kNone)) << "sent after the message came";
  EXPECT_EQ(Known(), "7 is over");
}

TEST_F(LeaderViewTest, NewerReplyCountsEvenIfItCrossedAMessage) {
  view_.OnAsked();
  view_.OnMessage(Leads(7), AtMs(5));
  EXPECT_TRUE(view_.OnReply(Leads(8), kLeft, AtMs(1), AtMs(6)));
}

TEST_F(LeaderViewTest, OlderLeaderAfterDataLossEndsTheTerm) {
  view_.OnMessage(Leads(7), AtMs(1));
  EXPECT_TRUE(Ask(Leads(6), 2, 3)) << "7 does not lead any more";
  EXPECT_EQ(Known(), "7 is over");
  EXPECT_FALSE(Ask(Leads(6), 4, 5));
  EXPECT_FALSE(Ask(Leads(7), 6, 7)) << "an older copy of the data";
  EXPECT_TRUE(Ask(Leads(8), 8, 9));
}

TEST_F(LeaderViewTest, AsksWithEachHeartbeatAndAfterTheLeadersLease) {
  EXPECT_EQ(view_.due(), base::Instant()) << "at once";
  view_.OnAsked();
  EXPECT_TRUE(view_.due().is_infinite()) << "until there is a reply";
  view_.OnReply(Leads(7), kLeft, AtMs(0), AtMs(1000));
  EXPECT_EQ(view_.due(), AtMs(11'000));
  Ask(Leads(7), 11'000, 11'000, absl::Seconds(3));
  EXPECT_EQ(view_.due(), AtMs(14'100));
  Ask(NoLeader(), 14'100, 14'100, kNone);
  EXPECT_EQ(view_.due(), AtMs(24'100));
  view_.AskNow(AtMs(15'000));
  EXPECT_EQ(view_.due(), AtMs(15'000));
}

TEST_F(LeaderViewTest, SilenceIsRetriedWithBackoffWithinAHeartbeat) {
  base::Instant now = AtMs(0);
  for (int i = 0; i < 20; ++i) {
    view_.OnAsked();
    view_.OnSilence(now);
    EXPECT_GT(view_.due(), now);
    EXPECT_LE(view_.due(), now + absl::Seconds(1));
    EXPECT_TRUE(i < 10 || view_.due() >= now + absl::Milliseconds(400)) << i;
    now = view_.due();
  }
  LeaderView quick(absl::Milliseconds(5), kNone);
  quick.OnAsked();
  quick.OnSilence(AtMs(0));
  EXPECT_LE(quick.due(), AtMs(5));
}

}  // namespace
}  // namespace redlatch::internal
