// Permits that are handed over for a claim; and many waiters and grants, dead or live: each call
// reads a window of them, and no request barges meanwhile.

#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

constexpr int kPermitClaim = 2000;

struct SemaphoreWindow : SemaphoreScriptsFixture {
  // How many messages of that kind there are on that channel.
  static int Told(Inbox& inbox, const std::string& what) {
    int told = 0;
    while (absl::StartsWith(inbox.Next(), what)) ++told;
    return told;
  }
};

// Claims.

TEST_F(SemaphoreWindow, HandoverKeepsTtlOfOtherGrants) {
  for (const int weight : {1, 2}) {
    server_->Command({"FLUSHALL"});
    capacity_ = weight + 1;
    Ask(Many(weight, 'a'));
    Ask(One('c'));
    Inbox inbox(*server_, Channel('b'));
    const Request b = Claiming(kPermitClaim, Many(weight, 'b'));
    Ask(b);
    EXPECT_EQ(Said(Release(Many(weight, 'a'))), Noted(kReleased, "look 2000"));
    EXPECT_EQ(inbox.Next(), GrantOf(For(kPermitClaim, b)));
    EXPECT_LE(Remaining(b.grant), kPermitClaim);
    EXPECT_GT(Remaining(b.grant), kPermitClaim - 500);
    EXPECT_GT(Pttl(Permits()), kPermitClaim);
    EXPECT_EQ(Renew(b), kHeld);
    EXPECT_GT(Remaining(b.grant), 29'000);
    EXPECT_GT(Pttl(Permits()), 29'000);
    ExpectConsistent();
  }
}

TEST_F(SemaphoreWindow, GrantByReplyChecksTheOthers) {
  capacity_ = 3;
  Inbox b(*server_, Channel('b'));
  Ask(Many(3, 'a'));
  Ask(Claiming(kPermitClaim, One('b')));
  const std::string ticket = Ask(Claiming(kPermitClaim, One('c'))).elements[3].text;
  Expire(GrantId('a'));
  EXPECT_EQ(Said(Acquire(Again(Claiming(kPermitClaim, One('c')), ticket))),
            Noted(Granted(), "look 2000"));
}

// Windows.

TEST_F(SemaphoreWindow, OverdueWaitersLeaveByWindows) {
  Inbox inbox(*server_, Channel('b'));
  capacity_ = 1;
  Ask(One('a'));
  MakeWaiters(100, Channel('b'));
  for (const std::string& grant : Waiting()) MakeOverdue(grant);
  EXPECT_EQ(Said(Release(One('a'))), Noted(kReleased, "look 1"));
  EXPECT_THAT(Waiting(), SizeIs(36));
  EXPECT_EQ(Said(Outcome(Impatient(One('c')))), Noted("busy", "look 2000"))
      << "the others have a subscriber";
  EXPECT_EQ(Told(inbox, "grant "), 1);
}

TEST_F(SemaphoreWindow, ManyGetInByWindowsAndAreChecked) {
  Inbox inbox(*server_, Channel('b'));
  SetCapacity(150);
  Ask(Many(150, 'a'));
  MakeWaiters(128, Channel('b'));
  Ask(Many(100, 'c'));  // for whom there are too few then
  EXPECT_EQ(Said(Release(Many(150, 'a'))), Noted(kReleased, "look 1 look 2000"));
  EXPECT_THAT(Holding(), SizeIs(64));
  EXPECT_EQ(Said(Outcome(Impatient(One('d')))), Noted("busy", "look 1 look 2000"))
      << "though there are enough; and it went on";
  EXPECT_THAT(Holding(), SizeIs(128));
  EXPECT_EQ(Said(Check()), Noted(kUnknown, ""));
  EXPECT_EQ(Told(inbox, "grant "), 128);
  EXPECT_THAT(Waiting(), IsEmpty()) << "c has no subscriber";
  EXPECT_EQ(Used(), 128);
}

TEST_F(SemaphoreWindow, HeadWaitsUntilItFits) {
  Inbox inbox(*server_, Channel('b')), c(*server_, Channel('c'));
  SetCapacity(10);
  Ask(Many(9, 'a'));
  Ask(One('a', 2));
  Request first = Many(5, 'c');
  first.ticket = "0";
  Ask(first);
  for (int i = 0; i < 100; ++i) Ask(One('b', i));
  EXPECT_EQ(Said(Release(One('a', 2))), Noted(kReleased, ""));
  EXPECT_EQ(Outcome(Impatient(One('d'))), "busy");
  EXPECT_THAT(Waiting(), SizeIs(101));
  EXPECT_EQ(Release(Many(9, 'a')), kReleased);
  EXPECT_THAT(c.Next(), StartsWith("grant " + GrantId('c')));
  EXPECT_EQ(Told(inbox, "grant "), 5);
}

TEST_F(SemaphoreWindow, ExpiredGrantsAreRemovedByWindows) {
  SetCapacity(200);
  MakeHolds(200, -100'000'000);
  EXPECT_EQ(Used(), 0);
  EXPECT_EQ(Said(Acquire(Impatient(Many(200, 'b')))), Noted(Granted(), ""))
      << "none of them counts";
  EXPECT_THAT(Holding(), SizeIs(200 - 64 + 1));
  EXPECT_EQ(Outcome(Impatient(One('c'))), "busy");
  EXPECT_EQ(Outcome(Impatient(One('c'))), "busy");
  EXPECT_EQ(Outcome(Impatient(One('c'))), "busy");
  EXPECT_THAT(Holding(), ElementsAre(GrantId('b')));
}

TEST_F(SemaphoreWindow, ExpiredWeightsComeBackByWindows) {
  SetCapacity(400);
  MakeHolds(200, -100'000'000, 2);
  for (const size_t left : {136, 72, 8}) {
    EXPECT_EQ(Said(Outcome(Impatient(Many(400, 'b')))), Noted("busy", "look 1"))
        << "it cannot tell yet";
    EXPECT_THAT(Holding(), SizeIs(left));
  }
  EXPECT_EQ(Said(Outcome(Impatient(Many(400, 'b')))), Noted("granted", ""));
  EXPECT_EQ(Used(), 400);
  EXPECT_EQ(Field("extra"), "399");
}

TEST_F(SemaphoreWindow, SetCapacityAdmitsByWindows) {
  for (const int weight : {1, 2}) {
    server_->Command({"FLUSHALL"});
    Inbox b(*server_, Channel('b'));
    SetCapacity(2);
    Ask(Many(2, 'a'));
    MakeWaiters(150, Channel('b'), weight);
    std::string said = SetCapacity(2 + weight * 149);
    EXPECT_EQ(said, "[\"more +inf\"]");
    EXPECT_EQ(notes_, "look 1");
    EXPECT_THAT(Holding(), SizeIs(65));
    EXPECT_EQ(SetCapacity(1, "more +inf"), "[\"more +inf\"]");
    EXPECT_EQ(Field("capacity"), absl::StrCat(2 + weight * 149)) << "which counts still";
    EXPECT_EQ(Said(SetCapacity(1, "more +inf")), Noted(kSet, "look 2000"));
    EXPECT_THAT(Holding(), SizeIs(150));
    EXPECT_EQ(Told(b, "grant "), 149);
    EXPECT_THAT(Waiting(), SizeIs(1));
    server_->Command({"DEL", name_});
    EXPECT_EQ(SetCapacity(1, "more +inf"), kSet) << "of what was forgotten";
    EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
  }
}

TEST_F(SemaphoreWindow, TooLargeWaitersAreToldByWindows) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  SetCapacity(2);
  Ask(One('a'));
  MakeWaiters(150, Channel('b'), 2);
  Ask(One('c'));
  std::vector<std::string> said = {SetCapacity(1)};
  while (said.back() != kSet && said.size() < 10) {
    EXPECT_EQ(notes_, "look 1");
    said.push_back(SetCapacity(1, said.back().substr(2, said.back().size() - 4)));
  }
  EXPECT_THAT(said, ElementsAre("[\"more 64\"]", "[\"more 128\"]", "[\"more +inf\"]", kSet));
  EXPECT_EQ(Told(b, "forced "), 150);
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('c')));
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_THAT(c.Next(), StartsWith("grant " + GrantId('c')));
}

// For people.

TEST_F(SemaphoreWindow, ForceReleaseTellsByWindows) {
  for (const int weight : {1, 2}) {
    server_->Command({"FLUSHALL"});
    SetCapacity(150 * weight);
    for (int i = 0; i < 150; ++i) {
      const Request request = For(30000 + 1000 * i, Many(weight, i < 75 ? 'a' : 'b', i));
      EXPECT_EQ(Outcome(request), "granted");
    }
    Inbox a(*server_, Channel('a')), b(*server_, Channel('b')), w(*server_, Channel('w'));
    Ask(Claiming(kPermitClaim, One('w')));
    const redis::Reply reply = PartOfForce({"redlatch:"});
    EXPECT_EQ(reply.elements[0].text, "released");
    EXPECT_EQ(notes_, "look 1") << "to be gone on with at once";
    EXPECT_THAT(reply.elements, SizeIs(1 + 64));
    EXPECT_THAT(Holding(), IsEmpty());
    EXPECT_EQ(Used(), 0);
    EXPECT_EQ(Renew(Many(weight, 'a', 1)), kNotHeld);
    EXPECT_EQ(Field("capacity"), absl::StrCat(150 * weight));
    EXPECT_GT(Pttl(name_), 86'400'000);
    EXPECT_GT(Pttl(Untold()), 0);
    ExpectConsistent();

    EXPECT_EQ(Outcome(One('c')), "granted") << "others need not wait till all are told";
    EXPECT_THAT(w.Next(), StartsWith("grant " + GrantId('w')));
    EXPECT_EQ(PartOfForce({"redlatch:", "more"}).DebugString(), "[\"told\"]");
    EXPECT_EQ(notes_, "look 1");
    EXPECT_EQ(PartOfForce({"redlatch:", "more"}).DebugString(), "[\"told\"]");
    EXPECT_EQ(notes_, "look 0");
    EXPECT_EQ(Told(a, "forced "), 75);
    EXPECT_EQ(Told(b, "forced "), 75);
    EXPECT_EQ(server_->Integer({"EXISTS", Untold()}), 0);
    EXPECT_THAT(Holding(), UnorderedElementsAre(GrantId('c'), GrantId('w')))
        << "it forces no others";
  }
}

TEST_F(SemaphoreWindow, UnfinishedForceReleaseIsFollowedByAnother) {
  SetCapacity(200);
  MakeHolds(100, 60'000'000);
  MakeHolds(20, -100'000'000, 1);
  PartOfForce({"redlatch:"});
  EXPECT_EQ(Acquire(One('a')), Granted());
  Inbox a(*server_, Channel('a'));
  EXPECT_EQ(ForceRelease(), absl::StrCat("[\"released\", \"", GrantId('a'), "\"]"));
  EXPECT_EQ(Told(a, "forced "), 1);
  EXPECT_EQ(server_->Integer({"EXISTS", Untold(), Permits()}), 0);
  MakeHolds(100, -100'000'000);
  EXPECT_EQ(ForceRelease(), kFree) << "those have expired";
  EXPECT_EQ(server_->Integer({"EXISTS", Untold(), Permits()}), 0);
}

}  // namespace
}  // namespace redlatch
