// Owners with several grants, in one client or in several.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

struct LockReentry : LockContract {
  bool GrantsKey(const std::string& grant) {
    return server_->Integer({"HEXISTS", name_, grant}) == 1;
  }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockReentry, ::testing::Values(ReentrantKind(), WriteKind()),
                         NameOfKind);

TEST_P(LockReentry, GrantIsHashWithLeaseAsTtl) {
  for (int i = 0; i < 2; ++i) {  // the second one finds a fence, and takes the short way
    const int64_t token = Token(Of('a'));
    EXPECT_EQ(server_->Text({"HGET", name_, "kind"}), kind_.stored + "/2");
    EXPECT_EQ(Count(Of('a').owner), "1");
    EXPECT_THAT(server_->Text({"HGET", name_, GrantId('a')}), HasSubstr(absl::StrCat(" ", token)));
    ExpectLease(29'000, 30'000);
    EXPECT_EQ(StoredFence(), token);
    EXPECT_GT(Pttl(Fence()), 86'000'000);
    EXPECT_EQ(Release(Of('a')), kReleased);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << "the fence";
  }
}

TEST_P(LockReentry, LastGrantOfOwnerFreesLock) {
  Inbox inbox(*server_, Channel('c'));
  const int64_t first = Token(Job('a'));
  Ask(Of('c'));
  EXPECT_EQ(Token(Job('b')), first) << "past the queue";
  EXPECT_EQ(Token(Job('a')), first);
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_EQ(Release(Job('a')), kReleased);
  EXPECT_EQ(Release(Job('a')), kNotHeld);
  EXPECT_EQ(Count(kJob), "1");
  EXPECT_EQ(inbox.Next(), "");
  EXPECT_EQ(Release(Job('b')), kReleased);
  EXPECT_THAT(inbox.Next(), StartsWith("grant " + GrantId('c')));
  EXPECT_EQ(Count(kJob), "");
  EXPECT_EQ(Count(Of('c').owner), "1");
}

// Its earlier grant is on its way back.
TEST_P(LockReentry, ClientThatAsksAgainPassesNobody) {
  Token(Of('a'));
  EXPECT_GT(Token(Of('a', 2)), 0) << "nobody waits";
  Release(Of('a', 2));
  Ask(Of('c'));
  EXPECT_THAT(Acquire(Of('a', 2)), HasSubstr("queued"));
  EXPECT_THAT(Acquire(Of('a', 2)), HasSubstr("queued"));
  Inbox inbox(*server_, Channel('c'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_THAT(inbox.Next(), StartsWith("grant " + GrantId('c')));
  EXPECT_EQ(Release(Of('c')), kReleased);
  EXPECT_GT(Token(Of('a', 2)), 0);
}

TEST_P(LockReentry, OneOfTwoGrantsExpiresAlone) {
  const Request brief = For(20, Job('a'));
  Token(brief);
  Token(Job('b'));
  EXPECT_TRUE(server_->Await([&] { return Renew(For(1, brief)) != kHeld; }));
  EXPECT_EQ(Renew(brief), kNotHeld);
  EXPECT_FALSE(GrantsKey(brief.grant));
  EXPECT_EQ(Count(kJob), "1");
  EXPECT_EQ(Renew(Job('b')), kHeld);
  EXPECT_GT(Pttl(name_), 29000);
}

TEST_P(LockReentry, KeyExpiresWithLongestGrant) {
  const Request brief = For(5000, Job('a'));
  Token(Job('b'));
  Token(brief);
  EXPECT_GT(Pttl(name_), 29000) << "shortened by a shorter lease";
  EXPECT_EQ(Renew(brief), kHeld);
  EXPECT_GT(Pttl(name_), 29000);
  Release(Job('b'));
  EXPECT_LE(Pttl(name_), 5001);
  EXPECT_EQ(Renew(brief), kHeld);
}

TEST_P(LockReentry, LockIsFreeIfAllGrantsExpired) {
  Token(Of('b'));
  Token(Of('b', 2));
  server_->Command({"ZADD", Auxiliary("holds"), "1000", GrantId('b'), "1000", GrantId('b', 2)});
  EXPECT_EQ(Inspect(),
            absl::StrCat("[\"", kind_.stored, "\", \"", StoredFence(), "\", [], 0, [], 0]"));
  EXPECT_EQ(Outcome(Of('c')), "granted");
  EXPECT_FALSE(GrantsKey(GrantId('b')));
}

TEST_P(LockReentry, CancelEndsOneGrantAndItsTokens) {
  Inbox inbox(*server_, Channel('c'));
  Request a = Of('a'), b = Of('a', 2);
  a.amount = b.amount = 10;
  Token(a);
  const int64_t token = Token(b);
  Ask(Of('c'));
  EXPECT_EQ(Cancel(a), kPassedOn);
  EXPECT_EQ(StoredFence(), token + 9);
  EXPECT_EQ(Count(a.owner), "1");
  EXPECT_EQ(inbox.Next(), "");
  EXPECT_EQ(Cancel(b), kPassedOn);
  EXPECT_THAT(inbox.Next(), StartsWith("grant " + GrantId('c')));
}

TEST_P(LockReentry, RepeatedRequeueCountsOnce) {
  for (const bool shared : {false, true}) {
    SCOPED_TRACE(shared);
    const Request old = shared ? Job('a') : Of('a'), fresh = shared ? Job('a', 2) : Of('a', 2);
    Token(old);
    const int64_t token = Token(For(5000, fresh));
    Ask(Of('c'));
    const redis::Reply reply = ReleaseAndQueue(old, fresh);
    EXPECT_EQ(reply.elements[1].text, "granted") << reply.DebugString();
    EXPECT_EQ(reply.elements[2].text, absl::StrCat(token));
    EXPECT_EQ(StoredFence(), token);
    EXPECT_EQ(Count(fresh.owner), "1");
    EXPECT_GT(Remaining(Auxiliary("holds"), fresh.grant), 29000);
    EXPECT_THAT(Waiting(), ElementsAre(GrantId('c')));
    EXPECT_EQ(Cancel(Of('c')), kLeft);
    EXPECT_EQ(Release(fresh), kReleased);
    EXPECT_EQ(server_->Integer({"EXISTS", name_, Auxiliary("holds")}), 0);
  }
}

TEST_P(LockReentry, DeletedExpiriesAreRestored) {
  const std::vector<std::pair<std::string, std::function<std::string()>>> calls = {
      {"", [] { return ""; }},
      {kHeld, [&] { return Renew(Job('a')); }},
      {kReleased, [&] { return Release(Job('a')); }},
      {kPassedOn, [&] { return Cancel(Job('a')); }},
      {"granted", [&] { return Outcome(Job('d')); }},
      {kUnknown, [&] { return Check(); }}};
  for (const auto& [reply, call] : calls) {
    SCOPED_TRACE(reply);
    server_->Command({"FLUSHALL"});
    Token(For(20000, Job('a')));
    Token(Job('b'));
    Token(Job('c'));
    server_->Command({"DEL", Auxiliary("holds")});
    EXPECT_THAT(Inspect(), HasSubstr(GrantId('b')));
    EXPECT_EQ(call(), reply);
    const redis::Reply busy = Ask(Impatient(Of('e')));
    EXPECT_EQ(First(busy), "busy");
    EXPECT_GT(busy.elements[1].integer, 29000) << "until the last grant ends";
    Release(Job('a'));
    Release(Job('d'));
    EXPECT_EQ(Count(kJob), "2");
    EXPECT_EQ(Release(Job('b')), kReleased);
    EXPECT_EQ(Outcome(Impatient(Of('e'))), "busy");
    EXPECT_EQ(Renew(Job('c')), kHeld);
    EXPECT_EQ(Release(Job('c')), kReleased);
    EXPECT_EQ(Outcome(Of('e')), "granted");
  }
}

TEST_P(LockReentry, AllWaitersOfOwnerEnterTogether) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  Inbox e(*server_, Channel('e'));
  Token(Of('a'));
  Ask(Claiming(2000, Job('b')));
  Ask(Of('d'));
  Ask(Claiming(3000, Job('c')));
  Ask(Job('e'));
  MakeOverdue(GrantId('e'));
  Ask(Job('f'));  // its channel has no listener
  Release(Of('a'));
  EXPECT_EQ(notes_, "look 3000") << "the longest claim";
  const std::string token = absl::StrCat(StoredFence());
  EXPECT_EQ(b.Next(), absl::StrCat("grant ", GrantId('b'), " 1 ", token, " 2000 3 ", name_));
  EXPECT_EQ(c.Next(), absl::StrCat("grant ", GrantId('c'), " 1 ", token, " 3000 3 ", name_));
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('d'), GrantId('e'), GrantId('f')));
  EXPECT_EQ(e.Next(), "");
  EXPECT_EQ(Outcome(Again(Job('e'))), "granted");
  for (const char client : {'b', 'c', 'e'}) Release(Job(client));
  EXPECT_THAT(d.Next(), StartsWith("grant " + GrantId('d')));
}

TEST_P(LockReentry, GrantByReplyAdmitsOwnersWaiters) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Of('a'));
  Ask(Job('c'));
  Ask(Claiming(2000, Job('b')));
  Expire(name_);
  EXPECT_EQ(Said(Outcome(Again(Job('c')))), Noted("granted", "look 2000"));
  EXPECT_THAT(b.Next(), StartsWith("grant " + GrantId('b')));
  EXPECT_EQ(c.Next(), "");
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_P(LockReentry, RequestEntersIfOwnersWaiterIsNext) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Of('a'));
  Ask(Claiming(2000, Job('b')));
  Ask(Job('c'));
  Expire(name_);
  EXPECT_EQ(Said(Outcome(Impatient(Job('d')))), Noted("granted", "look 30000"));
  EXPECT_THAT(b.Next(), StartsWith("grant " + GrantId('b')));
  EXPECT_THAT(c.Next(), StartsWith("grant " + GrantId('c')));
  EXPECT_EQ(Count(kJob), "3");
  EXPECT_EQ(Token(Job('d')), Token(Job('b')));
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_P(LockReentry, KeysAgreeIfJoinedInLastMillisecond) {
  for (int i = 1; i <= 50; ++i) {
    Ask(For(3, Job('a', i)));
    while (Pttl(name_) > 0) {
    }
    Ask(Job('b', i));
    const std::string count = server_->Text({"HGET", name_, "holds"});
    EXPECT_EQ(server_->Integer({"ZCARD", Auxiliary("holds")}), std::atoi(count.c_str()));
    server_->Command({"DEL", name_, Auxiliary("holds")});
  }
}

TEST_P(LockReentry, InspectShowsGrantsAndWaiters) {
  const int64_t first = Token(Job('a'));
  const int64_t second = Token(Job('b'));
  Ask(Of('c'));
  const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
  EXPECT_EQ(reply.elements[0].text, kind_.stored);
  ASSERT_EQ(reply.elements[2].elements.size(), 2);
  EXPECT_EQ(reply.elements[2].elements[0].elements[1].text, kJob);
  EXPECT_GT(reply.elements[2].elements[0].elements[2].integer, 29000);
  for (const redis::Reply& holder : reply.elements[2].elements) {
    const bool is_first = holder.elements[0].text == GrantId('a');
    EXPECT_EQ(holder.elements[4].text, absl::StrCat(is_first ? first : second)) << "since then";
  }
  EXPECT_EQ(reply.elements[5].integer, 2);
  EXPECT_EQ(reply.elements[4].elements[0].elements[1].text, Of('c').owner);
}

}  // namespace
}  // namespace redlatch
