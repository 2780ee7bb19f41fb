// Claims, handover checks, windows and notes.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

constexpr int kClaim = 2000;

struct LockClaim : LockContract {
  // Hands the lock over to that client, from 'a'.
  std::string HandOverTo(const Request& next) {
    Take(Of('a'));
    Ask(next);
    return Release(Of('a'));
  }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockClaim, ::testing::ValuesIn(ExclusiveKinds()), NameOfKind);

TEST_P(LockClaim, RenewTurnsClaimIntoLease) {
  const Request b = Claiming(kClaim, Of('b'));
  Inbox inbox(*server_, b.channel());
  EXPECT_EQ(Said(HandOverTo(b)), Noted(kReleased, "look 2000"));
  EXPECT_EQ(inbox.Next(), GrantOf(For(kClaim, b)));
  ExpectLease(kClaim - 500, kClaim);
  EXPECT_EQ(Renew(b), kHeld);
  ExpectLease(29000, 30000);
}

TEST_P(LockClaim, HeartbeatOfOwnerTurnsClaimIntoLease) {
  const Request b = Claiming(kClaim, Of('b'));
  Inbox inbox(*server_, b.channel());
  HandOverTo(b);
  EXPECT_EQ(Said(Outcome(Again(Claiming(kClaim, Of('b'))))), Noted("granted", "missed"));
  ExpectLease(29000, 30000);
}

TEST_P(LockClaim, RepeatDoesNotExtendManualClaim) {
  Request b = Claiming(kClaim, Of('b'));
  Inbox inbox(*server_, b.channel());
  HandOverTo(Manual(b));
  EXPECT_LE(Ask(Again(Manual(b))).elements[2].integer, kClaim);
  // This is how its client asks for all of it.
  EXPECT_EQ(Ask(Again(b)).elements[2].integer, 30000);
}

TEST_P(LockClaim, EveryScriptHandsOverFreeLock) {
  const Inbox inbox(*server_, Channel('b'));
  const Request brief = For(100, Of('a'));
  const std::vector<std::pair<std::string, std::function<std::string()>>> calls = {
      {kNotHeld, [&] { return Release(brief); }},
      {kNotHeld, [&] { return Release(brief, 0, 0, 5000); }},
      {kUnknown, [&] { return Cancel(brief); }},
      {"queued", [&] { return Outcome(Claiming(kClaim, Of('c'))); }},
      {"busy", [&] { return Outcome(Impatient(Of('c'))); }}};
  for (const auto& [reply, call] : calls) {
    server_->Command({"FLUSHALL"});
    Take(brief);
    Ask(Claiming(kClaim, Of('b')));
    AwaitExpiry(Leased());
    EXPECT_EQ(Said(call()), Noted(reply, "look 2000"));
    EXPECT_EQ(Owner(), GrantId('b')) << reply;
  }
}

TEST_P(LockClaim, DeadWaitersLeaveBeforeLiveOne) {
  Inbox inbox(*server_, Channel('b'));
  Take(Of('a'));
  MakeWaiters(200);
  Ask(Claiming(kClaim, Of('b')));
  EXPECT_EQ(Said(Release(Of('a'))), Noted(kReleased, "look 1"));
  EXPECT_EQ(Waiting().size(), 200 - 64 + 1);

  EXPECT_EQ(Said(Outcome(Impatient(Of('c')))), Noted("busy", "look 1"));
  EXPECT_EQ(Said(Outcome(Claiming(kClaim, Of('d')))), Noted("queued", "look 1"));
  EXPECT_EQ(Owner(), "");

  EXPECT_EQ(Said(Check()), Noted(kUnknown, "look 2000"));
  EXPECT_EQ(Owner(), GrantId('b'));
  EXPECT_THAT(inbox.Next(), StartsWith("grant " + GrantId('b')));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('d')));
}

TEST_P(LockClaim, RequestLearnsOfSubscriberAndMissedGrant) {
  Take(Of('a'));
  Request b = Claiming(kClaim, Of('b'));
  b.ticket = Ask(b).elements[3].text;
  EXPECT_EQ(notes_, "");
  b.listen = true;
  EXPECT_EQ(Said(Outcome(b)), Noted("queued", "deaf"));
  Cancel(b);
  EXPECT_EQ(Said(Outcome(Again(b))), Noted("queued", "deaf missed"));
  const Inbox inbox(*server_, b.channel());
  EXPECT_EQ(Said(Outcome(Again(b))), Noted("queued", ""));
}

TEST_P(LockClaim, UnsubscribedWaiterWinsAfterLongWait) {
  const Inbox inbox(*server_, Channel('c'));
  for (const bool long_ago : {false, true}) {
    Take(Of('a'));
    Request b = Claiming(kClaim, Of('b'));
    Request c = Claiming(kClaim, Of('c'));
    b.listen = true;
    if (long_ago) {
      b.attempt = c.attempt = 2;
      b.ticket = "1000000000000000";
    }
    EXPECT_EQ(Outcome(b), "queued");
    EXPECT_THAT(notes_, StartsWith("deaf"));
    EXPECT_EQ(Outcome(c), "queued");
    Release(Of('a'));
    const Request& next = long_ago ? b : c;
    EXPECT_EQ(Owner(), next.grant);
    EXPECT_EQ(Outcome(next), "granted");
    Release(next);
    Cancel(b);
    Release(c);
  }
}

TEST_P(LockClaim, UnsubscribedWaiterDiesWithoutPolls) {
  const Inbox inbox(*server_, Channel('c'));
  Take(Of('a'));
  Request b = Claiming(kClaim, Of('b'));
  b.listen = true;
  b.ticket = "1000000000000000";
  EXPECT_EQ(Outcome(b), "queued");
  const Request c = Claiming(kClaim, Of('c'));
  EXPECT_EQ(Outcome(c), "queued");
  // It asked long ago, as the record says that begins with the time.
  SetRecord(b.grant, "1000000000000000" + Record(b.grant).substr(16));
  Release(Of('a'));
  EXPECT_EQ(Owner(), c.grant);
}

// The server's clock was set back since the other came.
TEST_P(LockClaim, NewWaiterIsLastAfterClockStep) {
  Inbox first(*server_, Channel('b')), second(*server_, Channel('c'));
  Take(Of('a'));
  Request b = Claiming(kClaim, Of('b'));
  b.ticket = "8000000000000000";
  Ask(b);
  const redis::Reply queued = Ask(Claiming(kClaim, Of('c')));
  EXPECT_EQ(queued.elements[2].integer, 1);
  EXPECT_EQ(queued.elements[3].text, "8000000000000001");
  Ask(Of('d'));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b'), GrantId('c'), GrantId('d')));
  Release(Of('a'));
  EXPECT_EQ(Owner(), GrantId('b'));
}

TEST_P(LockClaim, ForeignValueIsNeverReadWhole) {
  if (GetParam().name == "simple") {
    server_->Command({"SETRANGE", name_, "1000000", "x"});
  } else {
    for (int i = 0; i < 100; ++i) server_->Command({"HSET", name_, absl::StrCat(i), "x"});
  }
  server_->Command({"PEXPIRE", name_, "60000"});
  server_->Command({"CONFIG", "RESETSTAT"});
  Ask(Claiming(kClaim, Of('b')));
  Ask(Again(Claiming(kClaim, Of('b'))));
  Release(Of('b'));
  Renew(Of('b'));
  Cancel(Of('b'));
  Inspect();
  const std::string stats = server_->Text({"INFO", "commandstats"});
  EXPECT_FALSE(absl::StrContains(stats, "cmdstat_hgetall:"));
  EXPECT_FALSE(absl::StrContains(stats, "cmdstat_hkeys:"));
  if (GetParam().name == "simple") {
    // The fence is all that is read by GET.
    EXPECT_TRUE(absl::StrContains(stats, "cmdstat_getrange:"));
  }
}

}  // namespace
}  // namespace redlatch
