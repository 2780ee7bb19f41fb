// Those who wait, and those who give up.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

constexpr const char* kWaysToGiveUp[] = {"cancel", "release", "release with a tombstone"};

class LockQueue : public LockContract {
 protected:
  std::string GiveUp(std::string_view how, const Request& request) {
    if (how == kWaysToGiveUp[0]) return Cancel(request);
    return how == kWaysToGiveUp[1] ? Release(request) : Release(request, 0, 0, 5000);
  }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockQueue, ::testing::ValuesIn(ExclusiveKinds()), NameOfKind);

TEST_P(LockQueue, RefusesWhoDoesNotWaitAndTakesTheOthersInOrder) {
  Take(Of('a'));
  const redis::Reply busy = Ask(Impatient(Of('d')));
  EXPECT_EQ(First(busy), "busy");
  EXPECT_GT(busy.elements[1].integer, 29000);
  EXPECT_THAT(Waiting(), IsEmpty());
  for (const char client : {'c', 'b'}) {
    const redis::Reply queued = Ask(Of(client));
    EXPECT_EQ(First(queued), "queued");
    EXPECT_EQ(queued.elements[2].integer, client == 'c' ? 0 : 1);
  }
  EXPECT_EQ(Outcome(Of('c')), "queued");
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy") << "it keeps its place";
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c'), Hold('b')));
}

TEST_P(LockQueue, HandsOverToTheFirstLiveWaiterAndTellsIt) {
  Take(Of('a'));
  Request b = For(12345, Of('b'));
  b.attempt = 7;
  if (kind_.has_tokens) b.block = 4;
  Ear ear(*server_, b.channel()), other(*server_, Channel('c'));
  Ask(b);
  Ask(Of('c'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Owner(), b.hold);
  EXPECT_EQ(ear.Hear(), GrantOf(b, 1));
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(other.Hear(), "");
  ExpectLease(11345, 12345);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c')));
}

TEST_P(LockQueue, PassesTheDeadOverAndTakesThemBackAtTheirTickets) {
  Ear monitor(*server_, "redlatch:*", "PSUBSCRIBE"), ear(*server_, Channel('c'));
  Take(Of('a'));
  const std::string ticket = Ask(Of('b')).elements[3].text;                // nobody listens there
  server_->Command({"ZADD", Auxiliary(kind_.queues[0]), "2", Hold('x')});  // no record
  Ask(Of('c'));
  Ask(Of('d'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Owner(), Hold('c'));
  EXPECT_EQ(ear.Hear(), GrantOf(Of('c'), 1));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d')));
  EXPECT_EQ(Ask(Again(Of('b'), ticket)).elements[2].integer, 0);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('d')));
}

TEST_P(LockQueue, CrashedWaitersAreForgottenWhileTheLockIsHeld) {
  Take(Of('a'));
  Ask(Of('b'));
  for (int i = 1; i <= 200; ++i) Ask(For(30, Beating(10, Of('c', i))));
  EXPECT_TRUE(server_->Await([&] {
    server_->Command({"PEXPIRE", Waiters(), "20000"});  // as if it had been there for long
    Ask(Again(Of('b')));
    return server_->Integer({"HLEN", Waiters()}) == 1;
  }));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b')));
  EXPECT_EQ(Owner(), Hold('a'));
}

TEST_P(LockQueue, ReleaseAlsoRemovesTheGrantFromTheQueue) {
  Ear ear(*server_, Channel('b'));
  for (const std::string ticket : {"1", "9000000000000000"}) {
    for (const char* const how : kWaysToGiveUp) {
      SCOPED_TRACE(how + (" " + ticket));
      server_->Command({"FLUSHALL"});
      Take(Of('a'));
      Ask(Of('b'));
      // As if a duplicate of its request had come late.
      server_->Command({"ZADD", Auxiliary(kind_.queues[0]), ticket, Hold('a')});
      SetRecord(Hold('a'), Record(Hold('b')));
      EXPECT_THAT(GiveUp(how, Of('a')), AnyOf(kPassedOn, kReleased));
      EXPECT_EQ(Owner(), Hold('b'));
      EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('b')));
      EXPECT_THAT(Waiting(), IsEmpty());
    }
  }
}

TEST_P(LockQueue, IsKeptForTheSlowestHeartbeat) {
  Take(Of('a'));
  Ask(Beating(1000, Of('b')));
  EXPECT_LE(Pttl(Auxiliary(kind_.queues[0])), 3000);
  Ask(Of('c'));
  EXPECT_GT(Pttl(Auxiliary(kind_.queues[0])), 29000);
  Ask(Beating(10, Of('d')));
  Ask(Again(Beating(10, Of('d'))));
  EXPECT_GT(Pttl(Auxiliary(kind_.queues[0])), 29000);
  EXPECT_GT(Pttl(Waiters()), 29000);
}

}  // namespace
}  // namespace redlatch
