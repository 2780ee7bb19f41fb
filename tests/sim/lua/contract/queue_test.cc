// Waiters, and requests that give up.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

constexpr const char* kWaysToGiveUp[] = {"cancel", "release", "release with a tombstone"};

struct LockQueue : LockContract {
  std::string GiveUp(std::string_view how, const Request& request) {
    if (how == kWaysToGiveUp[0]) return Cancel(request);
    return how == kWaysToGiveUp[1] ? Release(request) : Release(request, 0, 0, 5000);
  }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockQueue, ::testing::ValuesIn(ExclusiveKinds()), NameOfKind);

TEST_P(LockQueue, RefusesTriesAndServesWaitersInOrder) {
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
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy") << "it has its place still";
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('c'), GrantId('b')));
}

TEST_P(LockQueue, HandsOverToFirstLiveWaiter) {
  Take(Of('a'));
  Request b = For(12345, Of('b'));
  b.attempt = 7;
  if (kind_.has_tokens) b.amount = 4;
  Inbox inbox(*server_, b.channel()), other(*server_, Channel('c'));
  Ask(b);
  Ask(Of('c'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Owner(), b.grant);
  EXPECT_EQ(inbox.Next(), GrantOf(b, 1));
  EXPECT_EQ(inbox.Next(), "");
  EXPECT_EQ(other.Next(), "");
  ExpectLease(11345, 12345);
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('c')));
}

TEST_P(LockQueue, DeadWaitersReturnToTheirTickets) {
  Inbox monitor(*server_, "redlatch:*", "PSUBSCRIBE"), inbox(*server_, Channel('c'));
  Take(Of('a'));
  const std::string ticket = Ask(Of('b')).elements[3].text;  // without a subscriber
  server_->Command({"ZADD", Auxiliary(kind_.queues[0]), "2", GrantId('x')});  // no record
  Ask(Of('c'));
  Ask(Of('d'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Owner(), GrantId('c'));
  EXPECT_EQ(inbox.Next(), GrantOf(Of('c'), 1));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('d')));
  EXPECT_EQ(Ask(Again(Of('b'), ticket)).elements[2].integer, 0);
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b'), GrantId('d')));
}

TEST_P(LockQueue, CrashedWaitersLeaveAmongLiveOnes) {
  for (const int live : {1, 2, 10, 30}) {
    SCOPED_TRACE(live);
    server_->Command({"FLUSHALL"});
    Take(For(600'000, Of('a')));
    for (int i = 1; i <= live; ++i) Ask(Of('b', i));
    for (int i = 1; i <= 20; ++i) Ask(Of('c', i));
    for (int beat = 0; beat < 6 * live; ++beat) {  // for a lease and three heartbeats
      server_->Pass(10'000 / live);
      Ask(Again(Of('b', 1 + beat % live)));
    }
    EXPECT_EQ(Waiting().size(), live);
    EXPECT_EQ(server_->Integer({"HLEN", Waiters()}), live);
  }
}

TEST_P(LockQueue, CrashedWaitersLeaveAmongNewcomers) {
  Take(For(600'000, Of('a')));
  for (int i = 1; i <= 20; ++i) Ask(Of('c', i));
  for (int i = 1; i <= 600; ++i) {  // for a lease and three heartbeats
    server_->Pass(100);
    Ask(Of('b', i));
    Cancel(Of('b', i - 1));
  }
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b', 600)));
}

TEST_P(LockQueue, ReleaseRemovesGrantFromQueue) {
  Inbox inbox(*server_, Channel('b'));
  for (const std::string ticket : {"1", "9000000000000000"}) {
    for (const char* const how : kWaysToGiveUp) {
      SCOPED_TRACE(how + (" " + ticket));
      server_->Command({"FLUSHALL"});
      Take(Of('a'));
      Ask(Of('b'));
      // As if a duplicate of its request had come late.
      server_->Command({"ZADD", Auxiliary(kind_.queues[0]), ticket, GrantId('a')});
      SetRecord(GrantId('a'), Record(GrantId('b')));
      EXPECT_THAT(GiveUp(how, Of('a')), AnyOf(kPassedOn, kReleased));
      EXPECT_EQ(Owner(), GrantId('b'));
      EXPECT_THAT(inbox.Next(), StartsWith("grant " + GrantId('b')));
      EXPECT_THAT(Waiting(), IsEmpty());
    }
  }
}

TEST_P(LockQueue, TtlFollowsSlowestHeartbeat) {
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
