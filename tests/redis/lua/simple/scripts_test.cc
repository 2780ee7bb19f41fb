#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/lock_scripts_fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kHeld[] = "[\"held\"]";
constexpr char kNotHeld[] = "[\"not_held\"]";
constexpr char kReleased[] = "[\"released\"]";

class SimpleScriptsTest : public LockScriptsFixture {
 protected:
  SimpleScriptsTest() : LockScriptsFixture(SimpleScripts()) {}

  std::string Owner() { return server_->Text({"GET", name_}); }
};

TEST_F(SimpleScriptsTest, AFreeLockIsGrantedAsAPlainStringWithTheLeaseAsItsTtl) {
  const int64_t token = Token(Of('a'));
  EXPECT_EQ(Owner(), Hold('a'));
  EXPECT_EQ(StoredFence(), token);
  EXPECT_GT(Pttl(name_), 29000);
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SimpleScriptsTest, ARepeatedAcquireIsOneAcquisitionAndReArmsTheLease) {
  Request request = Of('a');
  request.block = 8;
  request.lease_ms = 5000;
  const int64_t token = Token(request);
  request.lease_ms = 30000;
  EXPECT_EQ(Acquire(request), absl::StrCat("[\"granted\", \"", token, "\", 30000, 0]"));
  EXPECT_GT(Pttl(name_), 29000);
  request.lease_ms = 1000;
  EXPECT_EQ(Token(request), token);
  EXPECT_GT(Pttl(name_), 29000) << "shortened";
  EXPECT_EQ(StoredFence(), token + 7);
  EXPECT_EQ(Release(request), kReleased);
  EXPECT_EQ(Owner(), "");
}

TEST_F(SimpleScriptsTest, AManualLeaseIsNotExtendedByARepeat) {
  Request request = Of('a');
  request.manual = true;
  request.lease_ms = 5000;
  Token(request);
  request.lease_ms = 60000;
  const redis::Reply reply = Ask(request);
  EXPECT_LE(reply.elements[2].integer, 5000);
  EXPECT_LE(Pttl(name_), 5000);
}

TEST_F(SimpleScriptsTest, ABusyLockRefusesWhoDoesNotWaitAndQueuesTheOthersInOrder) {
  Token(Of('a'));
  Request impatient = Of('d');
  impatient.wait = false;
  const redis::Reply busy = Ask(impatient);
  EXPECT_EQ(First(busy), "busy");
  EXPECT_GT(busy.elements[1].integer, 29000);
  EXPECT_THAT(Waiting(), IsEmpty());
  for (char client : {'c', 'b'}) {
    const redis::Reply queued = Ask(Of(client));
    EXPECT_EQ(First(queued), "queued");
    EXPECT_EQ(queued.elements[2].integer, client == 'c' ? 0 : 1);
  }
  EXPECT_EQ(Outcome(Of('c')), "queued");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c'), Hold('b')));
}

TEST_F(SimpleScriptsTest, AWaiterThatWasDroppedReturnsToItsOldTicket) {
  Token(Of('a'));
  Request first = Of('b');
  first.ticket = Ask(first).elements[3].text;
  Ask(Of('c'));
  Cancel(first);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c')));
  EXPECT_EQ(Ask(first).elements[3].text, first.ticket);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('c')));
}

TEST_F(SimpleScriptsTest, AReleaseHandsOverToTheFirstLiveWaiterAndTellsIt) {
  name_ = "name with spaces";
  Token(Of('a'));
  Request b = Of('b');
  b.attempt = 7;
  b.lease_ms = 12345;
  b.block = 4;
  Ear ear(*server_, b.channel()), other(*server_, Channel('c'));
  Ask(b);
  Ask(Of('c'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Owner(), b.hold);
  EXPECT_EQ(ear.Hear(),
            absl::StrCat("grant ", b.hold, " 7 ", StoredFence() - 3, " 12345 1 ", name_));
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(other.Hear(), "");
  EXPECT_LE(Pttl(name_), 12345);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c')));
}

TEST_F(SimpleScriptsTest, ANameOrOwnerMayHoldANul) {
  name_ = std::string("a\0b", 3);
  Request b = Of('b');
  b.owner = std::string("user:x\0 y", 9);
  Ear ear(*server_, b.channel());
  Token(Of('a'));
  Ask(b);
  EXPECT_THAT(server_->Text({"HGET", Waiters(), b.hold}), ::testing::EndsWith(" " + b.owner));
  Release(Of('a'));
  EXPECT_THAT(ear.Hear(), ::testing::EndsWith(" 0 " + name_));
}

TEST_F(SimpleScriptsTest, AWaiterWithoutSubscriberIsPassedOverThoughAMonitorListens) {
  Ear monitor(*server_, "redlatch:*", "PSUBSCRIBE"), ear(*server_, Channel('c'));
  Token(Of('a'));
  Ask(Of('b'));
  Ask(Of('c'));
  Release(Of('a'));
  EXPECT_EQ(Owner(), Hold('c'));
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SimpleScriptsTest, AnOverdueWaiterIsPassedOverForALiveOne) {
  Ear ear(*server_, Channel('b')), other(*server_, Channel('c'));
  Request late = Of('b');
  late.heartbeat_ms = 0;
  Token(Of('a'));
  Ask(Of('c'));  // keeps the queue
  late.ticket = "1";
  Ask(late);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('c')));
  Release(Of('a'));
  EXPECT_EQ(Owner(), Hold('c'));
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SimpleScriptsTest, WhereAllAreOverdueTheFirstWithASubscriberGetsItAndLaterOnesStay) {
  Ear ear(*server_, Channel('c')), other(*server_, Channel('d'));
  Token(Of('a'));
  for (char client : {'b', 'c', 'd'}) Ask(Of(client));
  for (char client : {'b', 'c', 'd'}) {  // as if their heartbeats were long ago
    server_->Command({"HSET", Waiters(), Hold(client),
                      absl::StrCat("1 30000 1 1 1 10000 0 0 2000 0 ", Channel(client), " 32 ",
                                   std::string(32, client))});
  }
  Release(Of('a'));
  EXPECT_EQ(Owner(), Hold('c'));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('c')));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d')));
}

TEST_F(SimpleScriptsTest, ANonOwnerReleasesAndRenewsNothing) {
  Token(Of('a'));
  EXPECT_EQ(Release(Of('b')), kNotHeld);
  EXPECT_EQ(Renew(Of('b')), kNotHeld);
  EXPECT_EQ(Owner(), Hold('a'));
}

TEST_F(SimpleScriptsTest, ARepeatedReleaseNeverReleasesTheSuccessor) {
  Ear ear(*server_, Channel('b'));
  Token(Of('a'));
  Ask(Of('b'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Release(Of('a')), kNotHeld);
  EXPECT_EQ(First(ReleaseAndQueue(Of('a'), Of('a', 2))), "not_held");
  EXPECT_EQ(Owner(), Hold('b'));
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SimpleScriptsTest, RenewExtendsAndNeverShortens) {
  Request request = Of('a');
  request.lease_ms = 5000;
  Token(request);
  request.lease_ms = 30000;
  EXPECT_EQ(Renew(request), kHeld);
  EXPECT_GT(Pttl(name_), 29000);
  request.lease_ms = 100;
  EXPECT_EQ(Renew(request), kHeld);
  EXPECT_GT(Pttl(name_), 29000);
}

TEST_F(SimpleScriptsTest, AnAcquireThatComesAfterItsCancelOrReleaseAcquiresAndQueuesNothing) {
  EXPECT_EQ(Cancel(Of('a'), 5000), "[\"unknown\"]");
  EXPECT_EQ(Outcome(Of('a')), "gone");
  Token(Of('b'));
  Release(Of('b'), 0, 0, 5000);
  EXPECT_EQ(Outcome(Of('b')), "gone");
  EXPECT_EQ(Release(Of('c'), 0, 0, 5000), kNotHeld);
  EXPECT_EQ(Outcome(Of('c')), "gone");
  EXPECT_EQ(Owner(), "");
  Token(Of('d'));
  EXPECT_EQ(Outcome(Of('a')), "gone");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SimpleScriptsTest, ARequeueThatComesAfterItsCancelLeavesNoGhost) {
  Token(Of('a'));
  Cancel(Of('a', 2), 5000);
  EXPECT_EQ(ReleaseAndQueue(Of('a'), Of('a', 2)).DebugString(), "[\"released\", \"gone\"]");
  EXPECT_EQ(Owner(), "");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SimpleScriptsTest, ARequeueGrantsItselfWhereNobodyWaits) {
  const int64_t token = Token(Of('a'));
  const redis::Reply reply = ReleaseAndQueue(Of('a'), Of('a', 2));
  ASSERT_EQ(reply.elements.size(), 5) << reply.DebugString();
  EXPECT_EQ(reply.elements[1].text, "granted");
  EXPECT_GT(std::stoll(reply.elements[2].text), token);
  EXPECT_EQ(Owner(), Hold('a', 2));
}

TEST_F(SimpleScriptsTest, ARequeueQueuesBehindOthers) {
  Ear ear(*server_, Channel('b'));
  Token(Of('a'));
  Ask(Of('b'));
  const redis::Reply reply = ReleaseAndQueue(Of('a'), Of('a', 2));
  ASSERT_EQ(reply.elements.size(), 5) << reply.DebugString();
  EXPECT_EQ(reply.elements[1].text, "queued");
  EXPECT_EQ(reply.elements[2].integer, 30000);
  EXPECT_EQ(reply.elements[3].integer, 0);
  EXPECT_EQ(Owner(), Hold('b'));
  EXPECT_THAT(ear.Hear(), HasSubstr(" 30000 1 "));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('a', 2)));
}

TEST_F(SimpleScriptsTest, ACancelLeavesTheQueueOrPassesTheGrantOnAndGivesTokensBack) {
  Ear ear(*server_, Channel('c'));
  Request granted = Of('a');
  granted.block = 100;
  const int64_t token = Token(granted);
  Ask(Of('b'));
  Ask(Of('c'));
  EXPECT_EQ(Cancel(Of('b')), "[\"left\"]");
  EXPECT_EQ(Cancel(Of('b')), "[\"unknown\"]");
  EXPECT_EQ(Cancel(granted), "[\"passed_on\"]");
  EXPECT_EQ(Owner(), Hold('c'));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('c')));
  Request alone = Of('d');
  alone.block = 4096;
  Release(Of('c'));
  Token(alone);
  const int64_t end = StoredFence();
  Cancel(alone);
  EXPECT_EQ(StoredFence(), end - 4096);
  EXPECT_GE(StoredFence(), token - 1);
}

TEST_F(SimpleScriptsTest, ALockThatIsFreeGoesToTheHeadWhoeverAsks) {
  Ear ear(*server_, Channel('b'));
  Token(Of('a'));
  Ask(Of('b'));
  server_->Command({"DEL", name_});  // as if it had expired
  EXPECT_EQ(Outcome(Of('c')), "queued");
  EXPECT_EQ(Owner(), Hold('b'));
  EXPECT_THAT(ear.Hear(), HasSubstr(" 1 " + name_));
  server_->Command({"DEL", name_});
  Request impatient = Of('d');
  impatient.wait = false;
  EXPECT_EQ(Outcome(impatient), "granted") << "the only waiter has no subscriber";
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SimpleScriptsTest, AnExpiredLeaseFreesTheLockForTheHead) {
  Request brief = Of('a');
  brief.lease_ms = 20;
  Token(brief);
  Request head = Of('b');
  const redis::Reply queued = Ask(head);
  EXPECT_LE(queued.elements[1].integer, 20);
  AwaitExpiry(name_);
  EXPECT_EQ(Outcome(head), "granted");
  EXPECT_EQ(Release(brief), kNotHeld);
  EXPECT_EQ(Owner(), head.hold);
}

TEST_F(SimpleScriptsTest, TokensGrowThroughFlushesAndAFenceInTheFuture) {
  int64_t last = 0;
  for (int i = 1; i <= 50; ++i) {
    const int64_t token = Token(Of('a', i));
    EXPECT_GT(token, last);
    last = token;
    Release(Of('a', i));
    if (i % 10 == 0) server_->Command({"FLUSHALL"});
  }
  last += 3'600'000'000;
  server_->Command({"SET", Fence(), absl::StrCat(last)});
  EXPECT_EQ(Token(Of('b')), last + 1);
  EXPECT_GT(Pttl(Fence()), 25 * 3'600'000 - 60'000);
}

TEST_F(SimpleScriptsTest, WhatABlockHasLeftIsGivenBackOnlyWhereItWasTheLast) {
  Request request = Of('a');
  request.block = 4096;
  const int64_t token = Token(request);
  EXPECT_EQ(StoredFence(), token + 4095);
  EXPECT_EQ(Release(request, token + 2, token + 4095), kReleased);
  EXPECT_EQ(StoredFence(), token + 2);
  EXPECT_GT(Pttl(Fence()), 86'000'000);
  const int64_t next = Token(Of('b'));
  EXPECT_EQ(Release(Of('b'), token + 2, token + 4095), kReleased);
  EXPECT_EQ(StoredFence(), next);
}

TEST_F(SimpleScriptsTest, WaiterTtlsAreNotShortenedByAShortHeartbeat) {
  Token(Of('a'));
  Ask(Of('b'));
  Request quick = Of('c');
  quick.heartbeat_ms = 10;
  Ask(quick);
  EXPECT_GT(Pttl(Queue()), 29000);
  EXPECT_GT(Pttl(Waiters()), 29000);
}

TEST_F(SimpleScriptsTest, RecordsThatAreMadeAnewBesideAQueueHaveATtl) {
  Acquire(Of('a'));
  Acquire(Of('b'));
  server_->Command({"DEL", Waiters()});
  Acquire(Of('c'));
  EXPECT_GT(Pttl(Waiters()), 0);
}

TEST_F(SimpleScriptsTest, AnOlderAttemptThatArrivesLateDoesNotLowerTheRecordedOne) {
  Ear ear(*server_, Channel('b'));
  Token(Of('a'));
  Request b = Of('b');
  b.attempt = 10;
  Ask(b);
  b.attempt = 9;
  Ask(b);
  Release(Of('a'));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + b.hold + " 10 "));
}

TEST_F(SimpleScriptsTest, AForeignOwnerExcludesAndIsPolled) {
  server_->Command({"SET", name_, "someone", "NX", "PX", "30000"});
  Request impatient = Of('a');
  impatient.wait = false;
  EXPECT_EQ(Acquire(impatient), "[\"busy\", -1]");
  EXPECT_EQ(Ask(Of('b')).elements[1].integer, -1);
  EXPECT_EQ(Release(Of('a')), kNotHeld);
  EXPECT_EQ(Owner(), "someone");
  server_->Command({"DEL", name_});
  Cancel(Of('b'));
  Token(Of('c'));
  EXPECT_TRUE(server_->Command({"SET", name_, "someone", "NX", "PX", "1"}).is_nil());
}

TEST_F(SimpleScriptsTest, KeysOfAnotherTypeAreRefusedAndUntouched) {
  for (const std::string& key : {name_, Queue(), Fence(), Waiters()}) {
    SCOPED_TRACE(key);
    server_->Command({"FLUSHALL"});
    if (key == Waiters()) {  // read only where somebody waits
      Token(Of('a'));
      server_->Command({"ZADD", Queue(), "1", Hold('c')});
      server_->Command({"PEXPIRE", Queue(), "30000"});
    } else if (key != name_) {
      server_->Command({"SET", name_, Hold('a'), "PX", "30000"});
    }
    server_->Command({"RPUSH", key, "x"});
    server_->Command({"PEXPIRE", key, "30000"});
    std::vector<std::string> replies = {ForceRelease()};
    if (key == name_) {
      for (std::string reply :
           {Acquire(Of('b')), Release(Of('a')), Renew(Of('a')), Cancel(Of('a'))}) {
        replies.push_back(reply);
      }
    } else {
      replies.push_back(Cancel(Of('a')));
      replies.push_back(Release(Of('a'), 1, 2));
      if (key != Fence()) replies.push_back(Acquire(Of('b')));
    }
    ExpectRefused(key, "WRONGTYPE", replies);
    if (key != name_) {
      EXPECT_EQ(Owner(), Hold('a'));
    }
    EXPECT_EQ(server_->Integer({"DBSIZE"}), key == name_ ? 1 : key == Waiters() ? 4 : 2);
  }
}

TEST_F(SimpleScriptsTest, AForeignOwnerThatLooksMuchLikeOursIsPolledAllTheSame) {
  for (const std::string& foreign : {std::string("3f2a77:1234"), std::string(33, 'a') + ":1",
                                     std::string(31, 'a') + ":1", std::string(32, 'a') + ":1x"}) {
    server_->Command({"SET", name_, foreign, "PX", "30000"});
    EXPECT_EQ(Ask(Of('b')).elements[1].integer, -1) << foreign;
    Cancel(Of('b'));
  }
}

TEST_F(SimpleScriptsTest, AHoldThatItsOwnerMayKeepIsNoForeignOne) {
  server_->Command({"SET", name_, Hold('a') + "k", "PX", "30000"});
  EXPECT_GT(Ask(Of('b')).elements[1].integer, 0) << "at the first attempt";
  EXPECT_GT(Ask(Of('b')).elements[1].integer, 0) << "at a heartbeat";
  EXPECT_THAT(Inspect(), HasSubstr(std::string(32, 'a') + "\""));
  Ear ear(*server_, Channel('a'));
  EXPECT_THAT(ForceRelease(), HasSubstr("released"));
  EXPECT_EQ(ear.Hear(), "forced " + Hold('a') + "k " + name_);
}

TEST_F(SimpleScriptsTest, AHoldOfALaterFormIsAForeignOnesAndPolled) {
  server_->Command({"SET", name_, Hold('a') + ":later", "PX", "30000"});
  for (int attempt = 1; attempt <= 2; ++attempt) {
    EXPECT_EQ(Ask(Of('b')).elements[1].integer, -1) << attempt;
  }
  EXPECT_THAT(Renew(Of('a')), HasSubstr("not_held"));
  EXPECT_EQ(Release(Of('a')), kNotHeld);
}

TEST_F(SimpleScriptsTest, AWaiterIsNotQueuedWhereItsRecordCannotBeWritten) {
  Token(Of('a'));
  server_->Command({"SET", Waiters(), "x", "PX", "30000"});
  ExpectRefused(Waiters(), "WRONGTYPE", {Acquire(Of('b'))});
  EXPECT_EQ(server_->Integer({"EXISTS", Queue()}), 0);
}

TEST_F(SimpleScriptsTest, AFenceThatIsNoTokenIsRefusedAndUntouched) {
  for (const char* nonsense : {"hello", "-1", "nan", "1.5", "99999999999999999", ""}) {
    server_->Command({"SET", Fence(), nonsense, "PX", "30000"});
    ExpectRefused(Fence(), "WRONGTYPE " + Fence(), {Acquire(Of('a'))});
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << nonsense;
  }
}

TEST_F(SimpleScriptsTest, FullMemoryRefusesAnAcquireAndNothingElse) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Of('a'));
  Ask(Of('b'));
  Ask(Of('c'));
  FillMemory();
  EXPECT_THAT(Acquire(Of('d')), HasSubstr("OOM"));
  Request again = Of('b');
  again.attempt = 2;
  EXPECT_EQ(Outcome(again), "queued") << "a heartbeat needs no memory";
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('c')));
  EXPECT_EQ(Renew(Of('a')), kHeld);
  EXPECT_EQ(Release(Of('a'), 0, 0, 5000), kReleased);
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
  EXPECT_EQ(Cancel(Of('b'), 5000), "[\"passed_on\"]");
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(Cancel(Of('e'), 5000), "[\"unknown\"]");
  EXPECT_EQ(Release(Of('c')), kReleased);
  const int64_t keys = server_->Integer({"DBSIZE"});
  EXPECT_THAT(Acquire(Of('d')), HasSubstr("OOM"));
  EXPECT_EQ(server_->Integer({"DBSIZE"}), keys);
}

TEST_F(SimpleScriptsTest, AForcedReleaseTellsTheOwnerAndHandsOver) {
  Ear a(*server_, Channel('a')), b(*server_, Channel('b'));
  EXPECT_EQ(ForceRelease(), "[\"free\"]");
  Token(Of('a'));
  Ask(Of('b'));
  EXPECT_EQ(ForceRelease(), "[\"released\", \"" + Hold('a') + "\"]");
  EXPECT_EQ(a.Hear(), "forced " + Hold('a') + " " + name_);
  EXPECT_THAT(b.Hear(), StartsWith("grant " + Hold('b')));
  EXPECT_EQ(Release(Of('b')), kReleased);
  server_->Command({"SET", name_, "someone"});
  EXPECT_EQ(ForceRelease(), "[\"released\", \"someone\"]");
  EXPECT_EQ(Owner(), "");
}

TEST_F(SimpleScriptsTest, InspectShowsTheOwnerAndTheFirstWaiters) {
  EXPECT_EQ(Inspect(), "[\"simple\", \"0\", [], 0, [], 0]");
  const int64_t token = Token(Of('a'));
  Ask(Of('b'));
  Ask(Of('c'));
  const redis::Reply reply = Eval(scripts_.inspect, {}, {"1"});
  EXPECT_EQ(reply.elements[1].text, absl::StrCat(token));
  EXPECT_EQ(reply.elements[2].elements[0].elements[0].text, Hold('a'));
  EXPECT_EQ(reply.elements[2].elements[0].elements[1].text, std::string(32, 'a'));
  EXPECT_EQ(reply.elements[2].elements[0].elements[4].text, absl::StrCat(token)) << "since then";
  EXPECT_EQ(reply.elements[3].integer, 2);
  EXPECT_EQ(reply.elements[5].integer, 1);
  ASSERT_EQ(reply.elements[4].elements.size(), 1);
  EXPECT_EQ(reply.elements[4].elements[0].elements[0].text, Hold('b'));
  EXPECT_EQ(Eval(scripts_.inspect, {}, {"0"}).elements[4].elements.size(), 0);
}

TEST_F(SimpleScriptsTest, InspectTellsNoLaterBeginningThanNowAndNoneOfAForeignHold) {
  Request block = Of('a');
  block.block = 4096;
  Token(block);
  const auto since = [&] {
    return Eval(scripts_.inspect, {}, {"0"}).elements[2].elements[0].elements[4].text;
  };
  const redis::Reply before = server_->Command({"TIME"});
  const std::string then = since();
  const redis::Reply after = server_->Command({"TIME"});
  const auto micros = [](const redis::Reply& time) {
    return std::stoll(time.elements[0].text) * 1'000'000 + std::stoll(time.elements[1].text);
  };
  EXPECT_LE(std::stoll(then), micros(after)) << "though tokens beyond that are reserved";
  EXPECT_GE(std::stoll(then), micros(before) - 10'000'000);
  Release(block);
  server_->Command({"SET", name_, "someone", "PX", "10000"});
  EXPECT_EQ(since(), "0");
}

// Random calls of six clients, late and repeated ones among them, against a model of what is true.
TEST_F(SimpleScriptsTest, RandomCallsKeepTheModel) {
  const uint32_t seed = support::Seed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };

  std::map<char, std::unique_ptr<Ear>> ears;
  for (char client = 'a'; client < 'e'; ++client) {
    ears[client] = std::make_unique<Ear>(*server_, Channel(client));
  }
  std::map<char, int> sequence;    // of each client's latest hold; 'e' and 'f' are deaf
  std::string owner;               // the model's
  std::vector<std::string> queue;  // the model's
  std::set<std::string> gone;      // given up
  int64_t last = 0;                // the largest token
  const auto alive = [&](const std::string& hold) { return hold[0] < 'e'; };
  const auto hand_over = [&] {
    owner.clear();
    while (!queue.empty() && !alive(queue.front())) queue.erase(queue.begin());
    if (queue.empty()) return;
    owner = queue.front();
    queue.erase(queue.begin());
    const std::string message = ears[owner[0]]->Hear();
    ASSERT_THAT(message, StartsWith("grant " + owner + " 1 "));
    const int64_t token = std::stoll(message.substr(owner.size() + 9));
    ASSERT_GT(token, last);
    last = token;
  };

  const int calls = support::Scaled(4000);
  for (int i = 0; i < calls && !HasFatalFailure(); ++i) {
    const char client = static_cast<char>('a' + below(6));
    if (below(3) == 0 || sequence[client] == 0) ++sequence[client];
    // Mostly the latest hold; now and then a request of an older one that comes late.
    Request request = Of(client, std::max(1, sequence[client] - (below(5) == 0 ? 1 : 0)));
    request.wait = below(4) != 0;
    const auto queued = std::find(queue.begin(), queue.end(), request.hold);
    switch (below(4)) {
      case 0:
      case 1: {
        const redis::Reply reply = Ask(request);
        if (gone.contains(request.hold)) {
          ASSERT_EQ(First(reply), "gone");
        } else if (owner == request.hold) {
          ASSERT_EQ(First(reply), "granted");
          ASSERT_EQ(std::stoll(reply.elements[1].text), last) << "not the token it had";
        } else if (owner.empty()) {  // and so nobody waits
          ASSERT_EQ(First(reply), "granted");
          ASSERT_GT(std::stoll(reply.elements[1].text), last);
          last = std::stoll(reply.elements[1].text);
          owner = request.hold;
        } else {
          ASSERT_EQ(First(reply), request.wait ? "queued" : "busy");
          if (request.wait && queued == queue.end()) queue.push_back(request.hold);
        }
        break;
      }
      case 2: {
        const bool held = owner == request.hold;
        ASSERT_EQ(Release(request, 0, 0, 60000), held ? kReleased : kNotHeld);
        gone.insert(request.hold);
        if (queued != queue.end()) queue.erase(queued);
        if (held) hand_over();
        break;
      }
      default: {
        const bool held = owner == request.hold, waits = queued != queue.end();
        ASSERT_EQ(Cancel(request, 60000), held    ? "[\"passed_on\"]"
                                          : waits ? "[\"left\"]"
                                                  : "[\"unknown\"]");
        gone.insert(request.hold);
        if (waits) queue.erase(queued);
        if (held) hand_over();
        break;
      }
    }
    ASSERT_EQ(Owner(), owner);
    ASSERT_EQ(Waiting(), queue);
  }
  ExpectATtlOnEveryKey();
}

}  // namespace
}  // namespace redlatch
