// Many that wait, dead or alive: each call looks at a window of them, and nobody barges meanwhile.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

class ReadWriteWindowsTest : public ReadWriteScriptsTest {
 protected:
  std::string Phase() { return server_->Text({"HGET", name_, "phase"}); }
  // As if all who read had left, by a release whose looker died.
  void AllLeave() { server_->Command({"DEL", Readers()}); }
  // How many grants there are on that channel.
  static int Grants(Ear& ear) {
    int grants = 0;
    while (absl::StartsWith(ear.Hear(), "grant ")) ++grants;
    return grants;
  }
};

TEST_F(ReadWriteWindowsTest, DeadWritersLeaveByWindowsAndNobodyGetsInBeforeTheLive) {
  Ear ear(*server_, Channel('b')), reader(*server_, Channel('e'));
  Token(Writer('a'));
  MakeWriters(260);
  Ask(Writer('b'));
  EXPECT_EQ(Said(Release(Writer('a'))), Noted(kReleased, "look 1"));
  EXPECT_THAT(Waiting(), SizeIs(260 - 64 + 1));

  EXPECT_EQ(Said(Outcome(Impatient(Writer('c')))), Noted("busy", "look 1"));
  EXPECT_EQ(Said(Outcome(Reader('e'))), Noted("queued", "look 1"));
  EXPECT_EQ(Said(Outcome(Impatient(Reader('g')))), Noted("busy", "look 1"));
  EXPECT_EQ(Owner(), "");
  EXPECT_THAT(Reading(), IsEmpty());

  EXPECT_EQ(Said(Look()), Noted(kUnknown, "look 30000"));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('b')));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('e')));
  EXPECT_EQ(reader.Hear(), "");
}

TEST_F(ReadWriteWindowsTest, DeadReadersLeaveByWindowsBeforeTheLive) {
  Ear ear(*server_, Channel('b'));
  Token(Writer('a'));
  MakeReaders(260);
  Ask(Reader('b'));
  EXPECT_EQ(Said(Release(Writer('a'))), Noted(kReleased, "look 1"));
  EXPECT_EQ(Said(Outcome(Impatient(Writer('c')))), Noted("busy", "look 1"))
      << "it comes after all who have a subscriber";
  EXPECT_EQ(Said(Outcome(Impatient(Reader('d')))), Noted("granted", "look 1"))
      << "it is in nobody's way";
  EXPECT_EQ(Said(Look(/*reads=*/true)), Noted(kUnknown, "look 1"));
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Said(Look(/*reads=*/true)), Noted(kUnknown, "look 30000"));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('b')));
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReadWriteWindowsTest, AReaderThatAsksWhileOnlyDeadWritersStandGetsInAfterTheyLeft) {
  Ear e(*server_, Channel('e'));
  Ask(Reader('a'));
  MakeWriters(100);
  EXPECT_EQ(Said(Outcome(Reader('b'))), Noted("queued", "look 1"));
  EXPECT_THAT(WaitingWriters(), SizeIs(36));
  EXPECT_EQ(Said(Outcome(Again(Reader('b')))), Noted("granted", ""));
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Reading(), ElementsAre(Hold('a'), Hold('b')));
}

TEST_F(ReadWriteWindowsTest, DeadWritersBeforeDeadReadersLeaveTheLockToWhoeverAsks) {
  Token(Writer('a'));
  MakeWriters(100);
  MakeReaders(100);
  EXPECT_EQ(Said(Release(Writer('a'))), Noted(kReleased, "look 1"));
  int refused = 0;
  for (; Outcome(Impatient(Writer('c'))) == "busy" && refused < 10; ++refused) {
    EXPECT_EQ(notes_, "look 1");
  }
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(Owner(), Writer('c').owner);
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReadWriteWindowsTest, WhoeverReadsGoesOnWithTheOthersTurn) {
  Ear ear(*server_, Channel('b'));
  Token(Writer('a'));
  MakeReaders(300, Channel('b'));
  Release(Writer('a'));
  const std::string last = absl::StrCat(std::string(30, '0'), "ff:1");
  Request heartbeat = Reader('b');
  heartbeat.hold = last;
  EXPECT_EQ(Said(Outcome(heartbeat)), Noted("granted", "look 1")) << "by the reply";
  EXPECT_THAT(Reading(), SizeIs(64 + 64 + 1));
  EXPECT_EQ(Said(Outcome(Again(heartbeat))), Noted("granted", "look 1 missed"))
      << "a repeat goes on, too";
  EXPECT_THAT(Reading(), SizeIs(64 + 128 + 1));
  EXPECT_EQ(Outcome(Reader('c')), "granted");
  EXPECT_THAT(Reading(), SizeIs(64 + 192 + 2));
  EXPECT_EQ(Said(Release(Reader('c'))), Noted(kReleased, "look 2000"));
  EXPECT_THAT(Reading(), SizeIs(300));
  EXPECT_EQ(Grants(ear), 299);
}

// After a phase-fair write, there may be more readers than one call lets in.

TEST_F(ReadWriteWindowsTest, AfterAPhaseFairWriteTheTurnStaysTheReaders) {
  Ear ear(*server_, Channel('b')), w(*server_, Channel('w')), late(*server_, Channel('e'));
  Token(Fair('a'));
  MakeReaders(150, Channel('b'));
  Ask(Writer('w'));
  EXPECT_EQ(Said(Release(Fair('a'))), Noted(kReleased, "look 1 look 2000"));
  EXPECT_THAT(Reading(), SizeIs(64));
  EXPECT_EQ(Phase(), "150");
  EXPECT_GT(Pttl(name_), 0);
  EXPECT_LE(Pttl(name_), 30000) << "no longer than the readers are kept";

  // It goes on with the turn, but gets in itself only with the writers' leave.
  EXPECT_EQ(Said(Outcome(Reader('e'))), Noted("queued", "look 1 look 2000"));
  EXPECT_THAT(Reading(), SizeIs(128));
  AllLeave();
  EXPECT_EQ(Said(Outcome(Again(Writer('w')))), Noted("queued", "look 2000"))
      << "though nobody reads; these were the last";
  EXPECT_EQ(Phase(), "");
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
  EXPECT_THAT(Reading(), SizeIs(22));
  EXPECT_EQ(Grants(ear), 150);

  EXPECT_EQ(Outcome(Impatient(Writer('c'))), "busy");
  EXPECT_EQ(Outcome(Impatient(Reader('d'))), "busy");
  EXPECT_EQ(late.Hear(), "");
  AllLeave();
  Look();
  EXPECT_THAT(w.Hear(), StartsWith("grant " + Hold('w')));
  EXPECT_EQ(late.Hear(), "");
  Release(Writer('w'));
  EXPECT_THAT(late.Hear(), StartsWith("grant " + Hold('e')));
}

TEST_F(ReadWriteWindowsTest, NobodyBargesWhileATurnGoesOnAndNobodyReads) {
  Ear ear(*server_, Channel('b')), w(*server_, Channel('w'));
  const std::vector<Request> others = {
      Writer('c'),        Impatient(Writer('d')), Fair('e'), Reader('g'), Impatient(Reader('h')),
      Again(Writer('w')), Nest(Fair('a'), 9)};
  for (const Request& other : others) {
    server_->Command({"FLUSHALL"});
    Token(Fair('a'));
    MakeReaders(200, Channel('b'));
    Ask(Writer('w'));
    Release(Fair('a'));
    AllLeave();
    const std::string outcome = Outcome(other);
    EXPECT_EQ(outcome, other.wait ? "queued" : "busy") << other.owner;
    EXPECT_EQ(notes_, "look 1 look 2000") << other.owner;
    EXPECT_THAT(Reading(), SizeIs(64)) << "and it went on";
    EXPECT_EQ(Owner(), "");
  }
}

TEST_F(ReadWriteWindowsTest, AReaderThatReturnsToItsTicketBelongsToTheTurn) {
  Ear ear(*server_, Channel('b')), w(*server_, Channel('w'));
  Token(Fair('a'));
  MakeReaders(150, Channel('b'));
  Ask(Writer('w'));
  Release(Fair('a'));
  Request returns = Reader('c');
  returns.ticket = "7";
  returns.attempt = 2;
  EXPECT_EQ(Said(Outcome(returns)), Noted("granted", "look 1 missed"));
  EXPECT_THAT(Reading(), SizeIs(64 + 64 + 1));
}

TEST_F(ReadWriteWindowsTest, ALateReaderJoinsATurnBehindWhichNoWriterWaits) {
  Ear ear(*server_, Channel('b')), w(*server_, Channel('w'));
  Token(Fair('a'));
  MakeReaders(200, Channel('b'));
  Release(Fair('a'));
  EXPECT_EQ(Phase(), "200");
  EXPECT_EQ(Outcome(Reader('c')), "granted");
  EXPECT_EQ(Outcome(Writer('w')), "queued");
  EXPECT_EQ(Phase(), "200") << "which a writer that comes now does not end";
  EXPECT_THAT(Reading(), SizeIs(192 + 1));
  EXPECT_EQ(Outcome(Reader('d')), "queued");
  EXPECT_EQ(Phase(), "");
  EXPECT_THAT(Reading(), SizeIs(200 + 1));
}

TEST_F(ReadWriteWindowsTest, ATurnOfTheDeadEndsAndTheWriterGetsIn) {
  for (const int dead : {10, 20, 64, 150}) {
    SCOPED_TRACE(dead);
    Ear w(*server_, Channel('w'));
    Token(Fair('a'));
    MakeReaders(dead);
    Ask(Writer('w'));
    EXPECT_EQ(Release(Fair('a')), kReleased);
    for (int call = 0; notes_ == "look 1" && call < 10; ++call) {
      EXPECT_EQ(Outcome(Impatient(Writer('c'))), "busy");
      Look();
    }
    EXPECT_THAT(w.Hear(), StartsWith("grant " + Hold('w')));
    EXPECT_EQ(Owner(), Writer('w').owner);
    EXPECT_EQ(Phase(), "");
    EXPECT_THAT(Waiting(), IsEmpty());
    Release(Writer('w'));
  }
}

TEST_F(ReadWriteWindowsTest, APhaseFairDowngradeBeginsATurn) {
  Ear ear(*server_, Channel('b')), w(*server_, Channel('w'));
  Token(Fair('a'));
  Ask(Nest(Fair('a')));
  MakeReaders(100, Channel('b'));
  Ask(Writer('w'));
  EXPECT_EQ(Release(Fair('a')), kReleased);
  EXPECT_THAT(Reading(), SizeIs(65));
  EXPECT_EQ(Phase(), "100");
  EXPECT_EQ(Said(Release(Nest(Fair('a')))), Noted(kReleased, "look 2000"));
  EXPECT_THAT(Reading(), SizeIs(100));
  EXPECT_EQ(Phase(), "");
}

// For people.

TEST_F(ReadWriteWindowsTest, AForcedReleaseEndsAllReadsAndTellsAWindowOfThem) {
  std::vector<Ear> ears;
  for (int i = 0; i < 100; ++i) {
    Request reader = For(30000 + 1000 * i, Reader('a'));
    reader.hold = absl::StrCat(i < 50 ? std::string(32, 'a') : std::string(32, 'b'), ":", i);
    EXPECT_EQ(Outcome(reader), "granted");
  }
  Ear a(*server_, Channel('a')), b(*server_, Channel('b')), w(*server_, Channel('w'));
  Ask(Writer('w'));
  const redis::Reply reply = Eval(scripts_.force_release, {}, {"redlatch:"});
  EXPECT_EQ(reply.elements[0].text, "released");
  EXPECT_EQ(reply.elements[1].integer, 1) << "to be gone on with at once";
  EXPECT_THAT(reply.elements, SizeIs(2 + 64));
  EXPECT_THAT(Reading(), IsEmpty());
  EXPECT_EQ(b.Hear(), absl::StrCat("forced ", Hold('b', 50), " ", name_));
  EXPECT_EQ(a.Hear(), absl::StrCat("forced ", Hold('a', 36), " ", name_));
  const redis::Reply more = Eval(scripts_.force_release, {}, {"redlatch:", "more"});
  EXPECT_EQ(more.elements[0].text, "told");
  EXPECT_EQ(more.elements[1].integer, 30000);
  EXPECT_THAT(w.Hear(), StartsWith("grant " + Hold('w')));
  Eval(scripts_.force_release, {}, {"redlatch:", "more"});
  EXPECT_EQ(Owner(), Writer('w').owner) << "which forces nothing";
}

TEST_F(ReadWriteWindowsTest, WaitersAreShownInTheOrderInWhichTheyWillBeServed) {
  Ear ear(*server_, Channel('b'));
  const auto shown = [&] {
    std::vector<std::string> holds;
    const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
    for (const redis::Reply& waiter : reply.elements[4].elements) {
      holds.push_back(waiter.elements[0].text);
      EXPECT_GT(waiter.elements[2].text.size(), 0) << "when it came";
    }
    EXPECT_EQ(reply.elements[3].integer, static_cast<int64_t>(holds.size()));
    return holds;
  };
  Token(Writer('a'));
  Ask(Reader('c'));
  Ask(Writer('d'));
  Ask(Reader('e'));
  Ask(Fair('g'));
  EXPECT_THAT(shown(), ElementsAre(Hold('d'), Hold('g'), Hold('c'), Hold('e')));
  server_->Command({"FLUSHALL"});
  Token(Fair('a'));
  Ask(Writer('d'));
  Ask(Reader('e'));
  EXPECT_THAT(shown(), ElementsAre(Hold('e'), Hold('d')));
  server_->Command({"FLUSHALL"});
  Token(Fair('a'));
  MakeReaders(66, Channel('b'));
  Ask(Writer('d'));
  Release(Fair('a'));
  server_->Command({"ZADD", Queue(), "1000", Hold('e')});
  server_->Command({"HSET", Waiters(), Hold('e'), "x"});
  EXPECT_THAT(shown(), ElementsAre(StartsWith("0000"), StartsWith("0000"), Hold('d'), Hold('e')));
}

}  // namespace
}  // namespace redlatch
