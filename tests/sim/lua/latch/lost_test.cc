// Counts that a server has lost, as one does that takes the place of another before it has received
// them: they are found out, repeated, or end the latch.

#include "tests/sim/lua/latch/fixture.h"

namespace redlatch {
namespace {

struct LatchLostCounts : LatchScripts {
  // A heartbeat of one that was told so.
  static Request Knowing(const std::string& told, char client = 'b') {
    Request request = Waiter(client);
    request.attempt = 2;
    request.more = {told};
    return request;
  }
  // As if that count, of n, had not reached this server.
  void Lose(const std::string& id, int n = 1) {
    EXPECT_EQ(server_->Integer({"ZREM", Counted(), id}), 1);
    server_->Command({"HINCRBY", name_, "count", absl::StrCat(n)});
  }
  std::string Missing() { return server_->Text({"HGET", name_, "missing"}); }
  // As if the counts had been missing for that long.
  void LetPatienceEnd() {
    std::string missing = Missing();
    missing.replace(missing.rfind(' '), missing.npos, " 1000");
    server_->Command({"HSET", name_, "missing", missing});
  }
  // Two of three have counted, and `told_` tells so.
  void CountTwo() {
    Create(3);
    Ask(Waiter('b'));
    CountDown("one");
    first_ = when_;
    CountDown("two");
    second_ = when_;
    told_ = "2 " + second_;
  }

  std::string first_, second_, told_;
};

TEST_F(LatchLostCounts, EachCountInvitesFirstWaiter) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Create(3);
  Ask(Waiter('b'));
  Ask(Waiter('c'));
  CountDown("one");
  EXPECT_EQ(b.Next(), absl::StrCat("look ", GrantId('b'), " ", name_));
  CountDown("two");
  EXPECT_EQ(b.Next(), absl::StrCat("look ", GrantId('b'), " ", name_));
  CountDown("two");
  EXPECT_EQ(b.Next(), "") << "a repeat";
  EXPECT_EQ(c.Next(), "");
}

TEST_F(LatchLostCounts, HeartbeatTellsHowManyCounted) {
  Create(3);
  Ask(Waiter('b'));
  EXPECT_EQ(notes_, "");
  CountDown("one");
  Ask(Waiter('b'));
  EXPECT_EQ(notes_, absl::StrCat("told 1 ", when_));
  CountDown("two");
  EXPECT_EQ(Outcome(Knowing(absl::StrCat("1 ", when_))), "queued");
  EXPECT_EQ(notes_, absl::StrCat("told 2 ", when_));
  EXPECT_EQ(Missing(), "");
}

TEST_F(LatchLostCounts, UnrepeatedMissingCountsEndLatch) {
  CountTwo();
  Lose("two");
  const redis::Reply reply = Ask(Knowing(told_));
  EXPECT_EQ(First(reply), "queued");
  EXPECT_LE(reply.elements[1].integer, 30'000) << "so long it waits for repeats";
  EXPECT_GT(reply.elements[1].integer, 29'000);
  EXPECT_THAT(Missing(), StartsWith(told_));
  LetPatienceEnd();
  EXPECT_THAT(Acquire(Waiter('c')), HasSubstr("GONE it can never open"));
  EXPECT_EQ(server_->Integer({"EXISTS", name_, Counted()}), 0);
  EXPECT_THAT(Acquire(Knowing(told_)), HasSubstr("GONE"));
}

TEST_F(LatchLostCounts, NoIdCountsTwiceAfterDeletedKeys) {
  CountTwo();
  server_->Command({"DEL", Counted()});
  EXPECT_THAT(CountDown("one"), StartsWith("GONE it can never open"));
  EXPECT_THAT(Acquire(Waiter('c')), HasSubstr("GONE"));
  server_->Command({"FLUSHALL"});
  CountTwo();
  server_->Command({"DEL", name_});
  EXPECT_THAT(CountDown("three"), StartsWith("GONE"));
  EXPECT_EQ(Create(3, Incarnation(2)), Made(3, Incarnation(2)));
  EXPECT_EQ(CountDown("one", 1, Incarnation(2)), "2");
}

TEST_F(LatchLostCounts, RepeatedCountsAreNotMissing) {
  CountTwo();
  Lose("one");
  Lose("two");
  Ask(Knowing(told_));
  EXPECT_EQ(Repeat("two", second_), "2 again") << "who counted repeats all the others, too";
  EXPECT_EQ(Repeat("two", second_), "2");
  LetPatienceEnd();
  EXPECT_THAT(Repeat("one", first_), StartsWith("GONE it can never open"));
}

TEST_F(LatchLostCounts, LatchSurvivesIfAllCountsReturn) {
  CountTwo();
  Lose("one");
  Lose("two");
  Ask(Knowing(told_));
  Repeat("two", second_);
  EXPECT_EQ(Repeat("one", first_), "1 again");
  LetPatienceEnd();
  EXPECT_EQ(Outcome(Knowing(told_)), "queued");
  EXPECT_EQ(Missing(), "");
  EXPECT_EQ(CountDown("three"), "0");
}

// One that counts at the new server only.
TEST_F(LatchLostCounts, NewCountDoesNotReplaceMissingOne) {
  CountTwo();
  Lose("one");
  Lose("two");
  CountDown("three");
  Repeat("two", second_);
  EXPECT_EQ(Outcome(Knowing(told_)), "queued");
  EXPECT_THAT(Missing(), StartsWith(told_));
  EXPECT_EQ(Outcome(Knowing(absl::StrCat("1 ", first_), 'c')), "queued");
  EXPECT_THAT(Missing(), StartsWith(told_)) << "who knows less changes nothing";
}

TEST_F(LatchLostCounts, HeartbeatFindsLossWithFullMemory) {
  CountTwo();
  Lose("two");
  FillMemory();
  EXPECT_EQ(Outcome(Knowing(told_)), "queued");
  EXPECT_THAT(Missing(), StartsWith(told_));
}

}  // namespace
}  // namespace redlatch
