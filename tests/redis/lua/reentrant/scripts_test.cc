#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kHeld[] = "[\"held\"]";
constexpr char kNotHeld[] = "[\"not_held\"]";
constexpr char kReleased[] = "[\"released\"]";
constexpr char kJob[] = "user:job 7";

class ReentrantScriptsTest : public LockScriptsFixture {
 protected:
  ReentrantScriptsTest() : LockScriptsFixture(ReentrantScripts()) {}

  // A request of that client for the explicit owner that several share.
  static Request Job(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.owner = kJob;
    return request;
  }
  std::vector<std::string> OwnKeys() const override { return {"{" + name_ + "}:holds"}; }
  // How many holds that owner has; one that was always alone is not counted.
  std::string Count(const std::string& owner) {
    if (server_->Text({"HGET", name_, "owner"}) != owner) return "";
    const std::string count = server_->Text({"HGET", name_, "holds"});
    return count.empty() ? "1" : count;
  }
  bool Holds(const std::string& hold) { return server_->Integer({"HEXISTS", name_, hold}) == 1; }
};

TEST_F(ReentrantScriptsTest, AFreeLockIsGrantedAsAHashWithTheLeaseAsItsTtl) {
  const int64_t token = Token(Of('a'));
  EXPECT_EQ(server_->Text({"HGET", name_, "kind"}), "reentrant/2");
  EXPECT_EQ(Count(Of('a').owner), "1");
  EXPECT_THAT(server_->Text({"HGET", name_, Hold('a')}), HasSubstr(absl::StrCat(" ", token)));
  EXPECT_GT(Pttl(name_), 29000);
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
}

// A server may be kept from its processor between looking at the time and writing.
TEST_F(ReentrantScriptsTest, WhatEndsWhileAScriptRunsLeavesNoKeyWithoutATtl) {
  const auto late = [](const redis::ScriptSource& script) {
    constexpr std::string_view kNow = "local now = now_us()\n";
    std::string body(script.body);
    const size_t at = body.find(kNow);
    EXPECT_NE(at, body.npos);
    return body.insert(at + kNow.size(), R"lua(
for i = 1, 100000 do
  local time = redis.call('TIME')
  if time[1] * 1000000 + time[2] > now + 60000 then break end
end
)lua");
  };
  Request request = Of('a');
  request.lease_ms = 50;
  request.manual = true;
  Ask(request);
  request.attempt = 2;
  const std::string acquire = late(scripts_.acquire);
  Eval({.body = acquire}, {Gone(request.hold)}, request.Args());
  EXPECT_NE(Pttl(name_), -1) << server_->Command({"HGETALL", name_}).DebugString();

  server_->Command({"DEL", name_});
  Request first = Job('a'), second = Job('b');
  second.lease_ms = 50;
  Ask(first);
  Ask(second);
  const std::string release = late(scripts_.release);
  Eval({.body = release}, {}, {first.hold, "0 0 0", kJob});
  EXPECT_NE(Pttl(name_), -1) << server_->Command({"HGETALL", name_}).DebugString();
}

TEST_F(ReentrantScriptsTest, ARepeatedAcquireIsOneHoldWithItsToken) {
  Request request = Of('a');
  request.block = 8;
  const int64_t token = Token(request);
  EXPECT_EQ(Acquire(request), absl::StrCat("[\"granted\", \"", token, "\", 30000, 0]"));
  EXPECT_EQ(Count(request.owner), "1");
  EXPECT_EQ(StoredFence(), token + 7);
}

TEST_F(ReentrantScriptsTest, ARepeatKeepsItsTokenThoughItsOwnerReservedOthersSince) {
  const int64_t token = Token(Of('a'));
  EXPECT_GT(Token(Of('a', 2)), token);
  EXPECT_EQ(Token(Of('a')), token);
}

TEST_F(ReentrantScriptsTest, AnOwnerThatItsUserNamedHasOneTokenInAllClients) {
  const int64_t token = Token(Job('a'));
  EXPECT_EQ(Token(Job('b')), token);
  Release(Job('a'));
  EXPECT_EQ(Token(Job('c')), token);
  Release(Job('b'));
  Release(Job('c'));
  EXPECT_GT(Token(Job('b', 2)), token);
}

TEST_F(ReentrantScriptsTest, OneOwnerInTwoClientsHoldsTwiceAndFreesItWithTheLast) {
  Ear ear(*server_, Channel('c'));
  const int64_t first = Token(Job('a'));
  Ask(Of('c'));
  EXPECT_EQ(Token(Job('b')), first) << "past the queue";
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_EQ(Release(Job('a')), kReleased);
  EXPECT_EQ(Release(Job('a')), kNotHeld);
  EXPECT_EQ(Count(kJob), "1");
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Release(Job('b')), kReleased);
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('c')));
  EXPECT_EQ(Count(kJob), "");
  EXPECT_EQ(Count(Of('c').owner), "1");
}

TEST_F(ReentrantScriptsTest, AnotherOwnerIsRefusedOrQueuedUntilTheLatestExpiry) {
  Request brief = Job('a');
  brief.lease_ms = 5000;
  Token(brief);
  Token(Job('b'));
  Request impatient = Of('c');
  impatient.wait = false;
  const redis::Reply busy = Ask(impatient);
  EXPECT_EQ(First(busy), "busy");
  EXPECT_GT(busy.elements[1].integer, 29000);
  EXPECT_LE(busy.elements[1].integer, 30000);
  EXPECT_EQ(Outcome(Of('c')), "queued");
  EXPECT_EQ(Outcome(Of('d')), "queued");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c'), Hold('d')));
}

TEST_F(ReentrantScriptsTest, AHoldOfTwoExpiresAloneAndIsPurged) {
  Request brief = Job('a');
  brief.lease_ms = 20;
  Token(brief);
  Token(Job('b'));
  const base::Instant deadline = base::Now() + absl::Seconds(10);
  while (Renew(brief) == kHeld && base::Now() < deadline) brief.lease_ms = 1;
  EXPECT_EQ(Renew(brief), kNotHeld);
  EXPECT_FALSE(Holds(brief.hold));
  EXPECT_EQ(Count(kJob), "1");
  EXPECT_EQ(Renew(Job('b')), kHeld);
  EXPECT_GT(Pttl(name_), 29000);
}

TEST_F(ReentrantScriptsTest, TheKeyExpiresWithTheLongestHoldThatIsLeft) {
  Request brief = Job('a');
  brief.lease_ms = 5000;
  Token(Job('b'));
  Token(brief);
  EXPECT_GT(Pttl(name_), 29000) << "shortened by a shorter lease";
  EXPECT_EQ(Renew(brief), kHeld);
  EXPECT_GT(Pttl(name_), 29000);
  Release(Job('b'));
  EXPECT_LE(Pttl(name_), 5001);
  EXPECT_EQ(Renew(brief), kHeld);
}

TEST_F(ReentrantScriptsTest, ALockWhoseHoldsHaveAllExpiredIsFree) {
  Request brief = Of('a');
  brief.lease_ms = 20;
  Token(brief);
  EXPECT_EQ(Outcome(Of('b')), "queued");
  AwaitExpiry(name_);
  EXPECT_EQ(Outcome(Of('b')), "granted");
  EXPECT_EQ(Release(brief), kNotHeld);
  // The same where the key is still there.
  Token(Of('b', 2));
  server_->Command({"ZADD", OwnKeys()[0], "1000", Hold('b'), "1000", Hold('b', 2)});
  EXPECT_EQ(Inspect(), absl::StrCat("[\"reentrant\", \"", StoredFence(), "\", [], 0, [], 0]"));
  EXPECT_EQ(Outcome(Of('c')), "granted");
  EXPECT_FALSE(Holds(Hold('b')));
}

TEST_F(ReentrantScriptsTest, AManualLeaseIsNotExtendedByARepeat) {
  Request request = Of('a');
  request.manual = true;
  request.lease_ms = 5000;
  Token(request);
  request.lease_ms = 60000;
  EXPECT_LE(Ask(request).elements[2].integer, 5000);
  EXPECT_LE(Pttl(name_), 5001);
}

TEST_F(ReentrantScriptsTest, AnAcquireThatComesAfterItsCancelOrReleaseAcquiresAndQueuesNothing) {
  EXPECT_EQ(Cancel(Of('a'), 5000), "[\"unknown\"]");
  EXPECT_EQ(Outcome(Of('a')), "gone");
  Token(Job('b'));
  Token(Job('c'));
  Release(Job('b'), 0, 0, 5000);
  EXPECT_EQ(Outcome(Job('b')), "gone");
  EXPECT_EQ(Count(kJob), "1");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReentrantScriptsTest, ACancelEndsOneHoldAndGivesBackOnlyItsOwnTokens) {
  Ear ear(*server_, Channel('c'));
  Request a = Of('a'), b = Of('a', 2);
  a.block = b.block = 10;
  Token(a);
  const int64_t token = Token(b);
  Ask(Of('c'));
  EXPECT_EQ(Cancel(a), "[\"passed_on\"]");
  EXPECT_EQ(StoredFence(), token + 9);
  EXPECT_EQ(Count(a.owner), "1");
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Cancel(b), "[\"passed_on\"]");
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('c')));
}

TEST_F(ReentrantScriptsTest, ARequeueWhileTheOwnerHoldsElsewhereIsGrantedOrQueued) {
  Token(Job('a'));
  Token(Job('b'));
  redis::Reply reply = ReleaseAndQueue(Job('a'), Job('a', 2));
  EXPECT_EQ(reply.elements[1].text, "granted") << reply.DebugString();
  EXPECT_EQ(Count(kJob), "2");
  reply = ReleaseAndQueue(Job('a', 2), Of('a', 3));
  EXPECT_EQ(reply.elements[1].text, "queued") << reply.DebugString();
  EXPECT_EQ(Count(kJob), "1");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('a', 3)));
  EXPECT_EQ(First(ReleaseAndQueue(Job('a', 2), Of('a', 4))), "not_held");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('a', 3)));
}

TEST_F(ReentrantScriptsTest, ARequeueGrantsItselfOrQueuesBehindOthers) {
  Ear ear(*server_, Channel('b'));
  Token(Of('a'));
  redis::Reply reply = ReleaseAndQueue(Of('a'), Of('a', 2));
  EXPECT_EQ(reply.elements[1].text, "granted") << reply.DebugString();
  Ask(Of('b'));
  reply = ReleaseAndQueue(Of('a', 2), Of('a', 3));
  EXPECT_EQ(reply.elements[1].text, "queued") << reply.DebugString();
  EXPECT_EQ(Count(Of('b').owner), "1");
  EXPECT_THAT(ear.Hear(), HasSubstr(" 30000 1 "));
}

TEST_F(ReentrantScriptsTest, AnOwnerThatWaitedAndIsLetInWaitsNoMore) {
  Token(Of('a'));
  Ask(Job('b'));
  Ask(Job('c'));
  Ear ear(*server_, Channel('b'));
  Release(Of('a'));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('b')));
  EXPECT_EQ(Outcome(Job('c')), "granted");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReentrantScriptsTest, KeysOfAnotherTypeOrKindAreRefusedAndUntouched) {
  const std::vector<std::vector<std::string>> others = {
      {"SET", name_, Hold('a')},
      {"HSET", name_, "field", "value"},
      {"HSET", name_, "kind", "read-write", Of('a').owner, "1"},
      {"HSET", name_, Hold('a'), "9000000000000000 1"}};
  for (const std::vector<std::string>& other : others) {
    server_->Command({"FLUSHALL"});
    server_->Command(other);
    server_->Command({"PEXPIRE", name_, "30000"});
    ExpectRefused(name_, "WRONGTYPE",
                  {Acquire(Of('a')), Release(Of('a')), Renew(Of('a')), Cancel(Of('a')), Inspect(),
                   ForceRelease()});
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1);
  }
}

TEST_F(ReentrantScriptsTest, FullMemoryRefusesAnAcquireAndNothingElse) {
  Ear c(*server_, Channel('c'));
  Token(Job('a'));
  Token(Job('b'));
  Ask(Of('c'));
  FillMemory();
  EXPECT_THAT(Acquire(Of('d')), HasSubstr("OOM"));
  EXPECT_THAT(Acquire(Job('e')), HasSubstr("OOM"));
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c')));
  EXPECT_EQ(Renew(Job('a')), kHeld);
  EXPECT_EQ(Release(Job('a'), 0, 0, 5000), kReleased);
  EXPECT_EQ(Cancel(Job('b'), 5000), "[\"passed_on\"]");
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(Release(Of('c')), kReleased);
  EXPECT_THAT(Acquire(Of('d')), HasSubstr("OOM"));
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
}

TEST_F(ReentrantScriptsTest, AForcedReleaseTellsEachClientAndHandsOver) {
  Ear a(*server_, Channel('a')), b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Job('a'));
  Token(Job('b'));
  Ask(Of('c'));
  const std::string reply = ForceRelease();
  EXPECT_THAT(reply, StartsWith("[\"released\", "));
  EXPECT_THAT(reply, HasSubstr(Hold('a')));
  EXPECT_THAT(reply, HasSubstr(Hold('b')));
  EXPECT_EQ(a.Hear(), "forced " + Hold('a') + " " + name_);
  EXPECT_EQ(b.Hear(), "forced " + Hold('b') + " " + name_);
  EXPECT_THAT(c.Hear(), StartsWith("grant " + Hold('c')));
  EXPECT_EQ(Release(Job('a')), kNotHeld);
  EXPECT_EQ(Release(Of('c')), kReleased);
  EXPECT_EQ(ForceRelease(), "[\"free\"]");
}

TEST_F(ReentrantScriptsTest, InspectShowsEachHoldAndTheWaiters) {
  const int64_t first = Token(Job('a'));
  const int64_t second = Token(Job('b'));
  Ask(Of('c'));
  const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
  EXPECT_EQ(reply.elements[0].text, "reentrant");
  ASSERT_EQ(reply.elements[2].elements.size(), 2);
  EXPECT_EQ(reply.elements[2].elements[0].elements[1].text, kJob);
  EXPECT_GT(reply.elements[2].elements[0].elements[2].integer, 29000);
  for (const redis::Reply& holder : reply.elements[2].elements) {
    const bool is_first = holder.elements[0].text == Hold('a');
    EXPECT_EQ(holder.elements[4].text, absl::StrCat(is_first ? first : second)) << "since then";
  }
  EXPECT_EQ(reply.elements[5].integer, 2);
  EXPECT_EQ(reply.elements[4].elements[0].elements[1].text, Of('c').owner);
}

}  // namespace
}  // namespace redlatch
