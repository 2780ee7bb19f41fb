// What the scripts of all exclusive locks have in common: claims, looks, windows and notes.
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr char kReleased[] = "[\"released\"]";
constexpr char kNotHeld[] = "[\"not_held\"]";
constexpr char kUnknown[] = "[\"unknown\"]";
constexpr int kClaim = 2000;

struct Kind {
  std::string_view name;
  LockScripts scripts;
  std::vector<std::string> own_keys;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
std::vector<Kind> Kinds() {
  return {{.name = "simple", .scripts = SimpleScripts()},
          {.name = "reentrant", .scripts = ReentrantScripts(), .own_keys = {"{orders:42}:holds"}}};
}

// Makes ARGV[1] waiters without a subscriber, who came before everybody else.
constexpr char kMakeDeadWaiters[] = R"lua(
for i = 1, tonumber(ARGV[1]) do
  local hold = string.format('%032x:1', i)
  redis.call('ZADD', KEYS[1], i, hold)
  redis.call('HSET', KEYS[2], hold, '1 30000 1 1 1 10000 0 ' .. i .. ' 2000 0 redlatch:nobody 1 x')
end
redis.call('PEXPIRE', KEYS[1], 60000)
redis.call('PEXPIRE', KEYS[2], 60000)
)lua";

class ClaimScriptsTest : public LockScriptsFixture, public ::testing::WithParamInterface<Kind> {
 protected:
  ClaimScriptsTest() : LockScriptsFixture(GetParam().scripts) {}

  std::vector<std::string> OwnKeys() const override { return GetParam().own_keys; }

  static Request Waiting1(char client, int attempt = 1) {
    Request request = Of(client);
    request.claim_ms = kClaim;
    request.attempt = attempt;
    return request;
  }
  std::string Owner() {
    const redis::Reply reply = Eval(scripts_.inspect, {}, {"0"});
    const auto& holders = reply.elements.at(2).elements;
    return holders.empty() ? "" : holders[0].elements.at(0).text;
  }
  void MakeDeadWaiters(int count) {
    server_->Command({"EVAL", kMakeDeadWaiters, "2", Queue(), Waiters(), absl::StrCat(count)});
  }
  // As whoever looks does it.
  std::string Look() { return Cancel(Of('f', 99)); }
};

TEST_P(ClaimScriptsTest, AHandOverIsForTheClaimAndRenewMakesItTheLease) {
  const Request b = Waiting1('b');
  Ear ear(*server_, b.channel());
  Token(Of('a'));
  Ask(b);
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(notes_, "look 2000");
  EXPECT_EQ(ear.Hear(), absl::StrCat("grant ", b.hold, " 1 ", StoredFence(), " 2000 0 ", name_));
  EXPECT_LE(Pttl(name_), kClaim + 1);
  EXPECT_EQ(Renew(b), "[\"held\"]");
  EXPECT_GT(Pttl(name_), 29000);
}

TEST_P(ClaimScriptsTest, AHeartbeatThatFindsItselfTheOwnerTurnsItsClaimIntoTheLease) {
  const Request b = Waiting1('b');
  Ear ear(*server_, b.channel());
  Token(Of('a'));
  Ask(b);
  Release(Of('a'));
  EXPECT_EQ(Outcome(Waiting1('b', 2)), "granted");
  EXPECT_EQ(notes_, "missed");
  EXPECT_GT(Pttl(name_), 29000);
}

TEST_P(ClaimScriptsTest, WhatIsLeftOfAManualClaimIsNotExtendedByARepeat) {
  Request b = Waiting1('b');
  b.manual = true;
  Ear ear(*server_, b.channel());
  Token(Of('a'));
  Ask(b);
  Release(Of('a'));
  b.attempt = 2;
  EXPECT_LE(Ask(b).elements[2].integer, kClaim);
  b.manual = false;  // this is how its client asks for all of it
  EXPECT_EQ(Ask(b).elements[2].integer, 30000);
}

TEST_P(ClaimScriptsTest, ALookPassesOnAClaimThatNobodyTook) {
  Ear frozen(*server_, Channel('b')), live(*server_, Channel('c'));
  Token(Of('a'));
  Request b = Waiting1('b');
  b.claim_ms = 20;
  Ask(b);
  Ask(Waiting1('c'));
  Release(Of('a'));
  EXPECT_EQ(notes_, "look 20");
  EXPECT_EQ(Look(), kUnknown);
  EXPECT_EQ(notes_, "");
  EXPECT_EQ(Owner(), b.hold) << "too early";
  AwaitExpiry(name_);
  EXPECT_EQ(Look(), kUnknown);
  EXPECT_EQ(notes_, "look 2000") << "and this one is looked after as well";
  EXPECT_EQ(Owner(), Hold('c'));
  EXPECT_THAT(live.Hear(), StartsWith("grant " + Hold('c')));
  EXPECT_EQ(Renew(b), kNotHeld) << "it comes too late, and harms nobody";
  EXPECT_EQ(Owner(), Hold('c'));
}

TEST_P(ClaimScriptsTest, WhoeverFindsTheLockFreeHandsItOver) {
  Ear ear(*server_, Channel('b'));
  Request brief = Of('a');
  brief.lease_ms = 20;
  const auto queue_behind_a_brief_hold = [&] {
    Token(brief);
    Ask(Waiting1('b'));
    AwaitExpiry(name_);
  };
  queue_behind_a_brief_hold();
  EXPECT_EQ(Release(brief), kNotHeld);
  EXPECT_EQ(notes_, "look 2000");
  EXPECT_EQ(Owner(), Hold('b'));
  Release(Of('b'));

  queue_behind_a_brief_hold();
  EXPECT_EQ(Release(brief, 0, 0, 5000), kNotHeld) << "one that leaves a tombstone";
  EXPECT_EQ(notes_, "look 2000");
  Release(Of('b'));
  server_->Command({"DEL", Gone(brief.hold)});

  queue_behind_a_brief_hold();
  EXPECT_EQ(Cancel(brief), kUnknown);
  EXPECT_EQ(notes_, "look 2000");
  Release(Of('b'));

  queue_behind_a_brief_hold();
  Ask(Waiting1('c'));
  EXPECT_EQ(notes_, "look 2000") << "also a newcomer";
  EXPECT_EQ(Owner(), Hold('b'));
}

TEST_P(ClaimScriptsTest, TheDeadLeaveByWindowsAndNobodyGetsInBeforeTheLive) {
  Ear ear(*server_, Channel('b'));
  Token(Of('a'));
  MakeDeadWaiters(200);
  Ask(Waiting1('b'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(notes_, "look 1");
  EXPECT_EQ(Waiting().size(), 200 - 64 + 1);

  Request impatient = Of('c');
  impatient.wait = false;
  EXPECT_EQ(Outcome(impatient), "busy");
  EXPECT_EQ(notes_, "look 1");
  EXPECT_EQ(Outcome(Waiting1('d')), "queued");
  EXPECT_EQ(notes_, "look 1");
  EXPECT_EQ(Owner(), "");

  EXPECT_EQ(Look(), kUnknown);
  EXPECT_EQ(notes_, "look 2000");
  EXPECT_EQ(Owner(), Hold('b'));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d')));
}

TEST_P(ClaimScriptsTest, BehindTheDeadAloneTheCallerGetsIn) {
  MakeDeadWaiters(70);
  EXPECT_EQ(Outcome(Waiting1('b')), "queued");
  EXPECT_EQ(notes_, "look 1");
  EXPECT_EQ(Outcome(Waiting1('b', 2)), "granted");
  EXPECT_EQ(notes_, "");
}

TEST_P(ClaimScriptsTest, WhoeverAsksHearsWhetherItsChannelHasASubscriber) {
  Token(Of('a'));
  Request b = Waiting1('b');
  EXPECT_EQ(Outcome(b), "queued");
  EXPECT_EQ(notes_, "");
  b.listen = true;
  EXPECT_EQ(Outcome(b), "queued");
  EXPECT_EQ(notes_, "deaf");
  const Ear ear(*server_, b.channel());
  EXPECT_EQ(Outcome(b), "queued");
  EXPECT_EQ(notes_, "");
}

TEST_P(ClaimScriptsTest, AWaiterThatIsDeafAndPollsHasItsTurnOnceItHasWaitedLong) {
  const Ear ear(*server_, Channel('c'));
  for (const bool long_ago : {false, true}) {
    Token(Of('a'));
    Request b = Waiting1('b', long_ago ? 2 : 1);
    b.listen = true;
    if (long_ago) b.ticket = "1000000000000000";
    EXPECT_EQ(Outcome(b), "queued");
    EXPECT_THAT(notes_, StartsWith("deaf"));
    const Request c = Waiting1('c', long_ago ? 2 : 1);
    EXPECT_EQ(Outcome(c), "queued");
    Release(Of('a'));
    const Request& next = long_ago ? b : c;
    EXPECT_EQ(Owner(), next.hold);
    EXPECT_EQ(Outcome(next), "granted");
    Release(next);
    Cancel(b);
    Release(c);
  }
}

TEST_P(ClaimScriptsTest, AWaiterThatIsDeafAndPollsNoMoreIsDead) {
  const Ear ear(*server_, Channel('c'));
  Token(Of('a'));
  Request b = Waiting1('b');
  b.listen = true;
  b.ticket = "1000000000000000";
  EXPECT_EQ(Outcome(b), "queued");
  const Request c = Waiting1('c');
  EXPECT_EQ(Outcome(c), "queued");
  // It asked long ago, as the record says that begins with the time.
  const std::string record = server_->Text({"HGET", Waiters(), b.hold});
  server_->Command({"HSET", Waiters(), b.hold, "1000000000000000" + record.substr(16)});
  Release(Of('a'));
  EXPECT_EQ(Owner(), c.hold);
}

TEST_P(ClaimScriptsTest, WhoeverLeftTheQueueUnawaresIsTold) {
  Token(Of('a'));
  Request b = Waiting1('b');
  b.ticket = Ask(b).elements[3].text;
  Cancel(b);
  b.attempt = 2;
  EXPECT_EQ(Outcome(b), "queued");
  EXPECT_EQ(notes_, "missed");
  EXPECT_EQ(Outcome(b), "queued");
  EXPECT_EQ(notes_, "");
}

// The server's clock was set back since the other came.
TEST_P(ClaimScriptsTest, WhoeverComesWhenTheClockWentBackComesLastAllTheSame) {
  Ear first(*server_, Channel('b')), second(*server_, Channel('c'));
  Token(Of('a'));
  Request b = Waiting1('b');
  b.ticket = "8000000000000000";
  Ask(b);
  const redis::Reply queued = Ask(Waiting1('c'));
  EXPECT_EQ(queued.elements[2].integer, 1);
  EXPECT_EQ(queued.elements[3].text, "8000000000000001");
  Release(Of('a'));
  EXPECT_EQ(Owner(), Hold('b'));
}

TEST_P(ClaimScriptsTest, ARecordWithFurtherWordsIsThatOfALiveWaiter) {
  Ear ear(*server_, Channel('b'));
  Token(Of('a'));
  Ask(Waiting1('b'));
  const std::string record = server_->Text({"HGET", Waiters(), Hold('b')});
  server_->Command({"HSET", Waiters(), Hold('b'), record + " a later 1"});
  Release(Of('a'));
  EXPECT_EQ(Owner(), Hold('b'));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('b')));
}

TEST_P(ClaimScriptsTest, AKeyOfSomebodyElseIsNeverReadWhole) {
  if (GetParam().name == "simple") {
    server_->Command({"SETRANGE", name_, "1000000", "x"});
  } else {
    for (int i = 0; i < 100; ++i) server_->Command({"HSET", name_, absl::StrCat(i), "x"});
  }
  server_->Command({"PEXPIRE", name_, "60000"});
  server_->Command({"CONFIG", "RESETSTAT"});
  for (const Request& request : {Waiting1('b'), Waiting1('b', 2)}) Ask(request);
  Release(Of('b'));
  Renew(Of('b'));
  Cancel(Of('b'));
  Inspect();
  const std::string stats = server_->Text({"INFO", "commandstats"});
  EXPECT_FALSE(absl::StrContains(stats, "cmdstat_hgetall:"));
  if (GetParam().name == "simple") {
    // The fence is all that is read by GET.
    EXPECT_TRUE(absl::StrContains(stats, "cmdstat_getrange:"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ClaimScriptsTest, ::testing::ValuesIn(Kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace redlatch
