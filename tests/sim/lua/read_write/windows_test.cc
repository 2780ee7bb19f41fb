// Many waiters, dead or live: each call reads a window of them, and no request barges meanwhile.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

struct ReadWriteWindow : ReadWriteScripts {
  std::string Phase() { return server_->Text({"HGET", name_, "phase"}); }
  // As if all readers had left, and the client that had to check the handover had died.
  void AllLeave() { server_->Command({"DEL", Readers()}); }
  // A fair write ends. That many readers of client 'b' follow. A writer waits behind them, or none.
  void BeginPhase(int readers, bool writer_waits = true) {
    Token(Fair('a'));
    MakeReaders(readers, Channel('b'));
    if (writer_waits) Ask(Writer('w'));
    EXPECT_EQ(Release(Fair('a')), kReleased);
  }
  // How many grants there are on that channel.
  static int Grants(Inbox& inbox) {
    int grants = 0;
    while (absl::StartsWith(inbox.Next(), "grant ")) ++grants;
    return grants;
  }

  Inbox inbox_{*server_, Channel('b')}, w_{*server_, Channel('w')};
};

TEST_F(ReadWriteWindow, DeadWritersLeaveBeforeLiveWriter) {
  Inbox reader(*server_, Channel('e'));
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

  EXPECT_EQ(Said(Check()), Noted(kUnknown, "look 30000"));
  EXPECT_THAT(inbox_.Next(), StartsWith("grant " + GrantId('b')));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('e')));
  EXPECT_EQ(reader.Next(), "");
}

TEST_F(ReadWriteWindow, DeadReadersLeaveBeforeLiveReader) {
  Token(Writer('a'));
  MakeReaders(260);
  Ask(Reader('b'));
  EXPECT_EQ(Said(Release(Writer('a'))), Noted(kReleased, "look 1"));
  EXPECT_EQ(Said(Outcome(Impatient(Writer('c')))), Noted("busy", "look 1"))
      << "it comes after all who have a subscriber";
  EXPECT_EQ(Said(Outcome(Impatient(Reader('d')))), Noted("granted", "look 1"))
      << "it keeps no client out";
  EXPECT_EQ(Said(Check(/*reads=*/true)), Noted(kUnknown, "look 1"));
  EXPECT_EQ(inbox_.Next(), "");
  EXPECT_EQ(Said(Check(/*reads=*/true)), Noted(kUnknown, "look 30000"));
  EXPECT_THAT(inbox_.Next(), StartsWith("grant " + GrantId('b')));
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReadWriteWindow, ReaderGetsInAfterDeadWritersLeave) {
  Inbox e(*server_, Channel('e'));
  Ask(Reader('a'));
  MakeWriters(100);
  EXPECT_EQ(Said(Outcome(Reader('b'))), Noted("queued", "look 1"));
  EXPECT_THAT(WaitingWriters(), SizeIs(36));
  EXPECT_EQ(Said(Outcome(Again(Reader('b')))), Noted("granted", ""));
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Reading(), ElementsAre(GrantId('a'), GrantId('b')));
}

TEST_F(ReadWriteWindow, RequestGetsInAfterAllDeadLeave) {
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

TEST_F(ReadWriteWindow, ReaderAdmitsRemainingReaders) {
  Token(Writer('a'));
  MakeReaders(300, Channel('b'));
  Release(Writer('a'));
  const std::string last = absl::StrCat(std::string(30, '0'), "ff:1");
  Request heartbeat = Reader('b');
  heartbeat.grant = last;
  EXPECT_EQ(Said(Outcome(heartbeat)), Noted("granted", "look 1")) << "by the reply";
  EXPECT_THAT(Reading(), SizeIs(64 + 64 + 1));
  EXPECT_EQ(Said(Outcome(Again(heartbeat))), Noted("granted", "look 1 missed"))
      << "a repeat goes on, too";
  EXPECT_THAT(Reading(), SizeIs(64 + 128 + 1));
  EXPECT_EQ(Outcome(Reader('c')), "granted");
  EXPECT_THAT(Reading(), SizeIs(64 + 192 + 2));
  EXPECT_EQ(Said(Release(Reader('c'))), Noted(kReleased, "look 2000"));
  EXPECT_THAT(Reading(), SizeIs(300));
  EXPECT_EQ(Grants(inbox_), 299);
}

// After a phase-fair write, there may be more readers than one call lets in.

TEST_F(ReadWriteWindow, ReadersKeepPhaseOverSeveralCalls) {
  Inbox late(*server_, Channel('e'));
  BeginPhase(150);
  EXPECT_EQ(notes_, "look 1 look 2000");
  EXPECT_THAT(Reading(), SizeIs(64));
  EXPECT_EQ(Phase(), "150");
  EXPECT_GT(Pttl(name_), 0);
  EXPECT_LE(Pttl(name_), 30000) << "no longer than the readers' queue lives";

  // It goes on with the turn, but gets in itself only with the writers' leave.
  EXPECT_EQ(Said(Outcome(Reader('e'))), Noted("queued", "look 1 look 2000"));
  EXPECT_THAT(Reading(), SizeIs(128));
  AllLeave();
  EXPECT_EQ(Said(Outcome(Again(Writer('w')))), Noted("queued", "look 2000"))
      << "though no client reads; these were the last";
  EXPECT_EQ(Phase(), "");
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
  EXPECT_THAT(Reading(), SizeIs(22));
  EXPECT_EQ(Grants(inbox_), 150);

  EXPECT_EQ(Outcome(Impatient(Writer('c'))), "busy");
  EXPECT_EQ(Outcome(Impatient(Reader('d'))), "busy");
  EXPECT_EQ(late.Next(), "");
  AllLeave();
  Check();
  EXPECT_THAT(w_.Next(), StartsWith("grant " + GrantId('w')));
  EXPECT_EQ(late.Next(), "");
  Release(Writer('w'));
  EXPECT_THAT(late.Next(), StartsWith("grant " + GrantId('e')));
}

TEST_F(ReadWriteWindow, NoRequestBargesDuringPhase) {
  const std::vector<Request> others = {
      Writer('c'),        Impatient(Writer('d')), Fair('e'), Reader('g'), Impatient(Reader('h')),
      Again(Writer('w')), Nest(Fair('a'), 9)};
  for (const Request& other : others) {
    server_->Command({"FLUSHALL"});
    BeginPhase(200);
    AllLeave();
    const std::string outcome = Outcome(other);
    EXPECT_EQ(outcome, other.wait ? "queued" : "busy") << other.owner;
    EXPECT_EQ(notes_, "look 1 look 2000") << other.owner;
    EXPECT_THAT(Reading(), SizeIs(64)) << "and it went on";
    EXPECT_EQ(Owner(), "");
  }
}

TEST_F(ReadWriteWindow, ReturningReaderBelongsToPhase) {
  BeginPhase(150);
  Request returns = Reader('c');
  returns.ticket = "7";
  returns.attempt = 2;
  EXPECT_EQ(Said(Outcome(returns)), Noted("granted", "look 1 missed"));
  EXPECT_THAT(Reading(), SizeIs(64 + 64 + 1));
}

TEST_F(ReadWriteWindow, LateReaderJoinsPhaseWithoutWriters) {
  BeginPhase(200, /*writer_waits=*/false);
  EXPECT_EQ(Phase(), "200");
  EXPECT_EQ(Outcome(Reader('c')), "granted");
  EXPECT_EQ(Outcome(Writer('w')), "queued");
  EXPECT_EQ(Phase(), "200") << "which a writer that comes now does not end";
  EXPECT_THAT(Reading(), SizeIs(192 + 1));
  EXPECT_EQ(Outcome(Reader('d')), "queued");
  EXPECT_EQ(Phase(), "");
  EXPECT_THAT(Reading(), SizeIs(200 + 1));
}

TEST_F(ReadWriteWindow, PhaseOfDeadReadersEnds) {
  for (const int dead : {10, 20, 64, 150}) {
    SCOPED_TRACE(dead);
    Token(Fair('a'));
    MakeReaders(dead);
    Ask(Writer('w'));
    EXPECT_EQ(Release(Fair('a')), kReleased);
    for (int call = 0; notes_ == "look 1" && call < 10; ++call) {
      EXPECT_EQ(Outcome(Impatient(Writer('c'))), "busy");
      Check();
    }
    EXPECT_THAT(w_.Next(), StartsWith("grant " + GrantId('w')));
    EXPECT_EQ(Owner(), Writer('w').owner);
    EXPECT_EQ(Phase(), "");
    EXPECT_THAT(Waiting(), IsEmpty());
    Release(Writer('w'));
  }
}

TEST_F(ReadWriteWindow, PhaseFairDowngradeBeginsPhase) {
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

TEST_F(ReadWriteWindow, ForceReleaseTellsOneWindowOfReaders) {
  for (int i = 0; i < 100; ++i) {
    Request reader = For(30000 + 1000 * i, Reader('a'));
    reader.grant = absl::StrCat(i < 50 ? std::string(32, 'a') : std::string(32, 'b'), ":", i);
    EXPECT_EQ(Outcome(reader), "granted");
  }
  Inbox a(*server_, Channel('a'));
  Ask(Writer('w'));
  const redis::Reply reply = Eval(scripts_.force_release, {}, {"redlatch:"});
  EXPECT_EQ(reply.elements[0].text, "released");
  EXPECT_EQ(reply.elements[1].integer, 1) << "to be gone on with at once";
  EXPECT_THAT(reply.elements, SizeIs(2 + 64));
  EXPECT_THAT(Reading(), IsEmpty());
  EXPECT_EQ(inbox_.Next(), absl::StrCat("forced ", GrantId('b', 50), " ", name_));
  EXPECT_EQ(a.Next(), absl::StrCat("forced ", GrantId('a', 36), " ", name_));
  const redis::Reply more = Eval(scripts_.force_release, {}, {"redlatch:", "more"});
  EXPECT_EQ(more.elements[0].text, "told");
  EXPECT_EQ(more.elements[1].integer, 30000);
  EXPECT_THAT(w_.Next(), StartsWith("grant " + GrantId('w')));
  Eval(scripts_.force_release, {}, {"redlatch:", "more"});
  EXPECT_EQ(Owner(), Writer('w').owner) << "which forces nothing";
}

TEST_F(ReadWriteWindow, InspectListsWaitersInServingOrder) {
  const auto shown = [&] {
    std::vector<std::string> grants;
    const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
    for (const redis::Reply& waiter : reply.elements[4].elements) {
      grants.push_back(waiter.elements[0].text);
      EXPECT_GT(waiter.elements[2].text.size(), 0) << "when it came";
    }
    EXPECT_EQ(reply.elements[3].integer, static_cast<int64_t>(grants.size()));
    return grants;
  };
  Token(Writer('a'));
  Ask(Reader('c'));
  Ask(Writer('d'));
  Ask(Reader('e'));
  Ask(Fair('g'));
  EXPECT_THAT(shown(), ElementsAre(GrantId('d'), GrantId('g'), GrantId('c'), GrantId('e')));
  server_->Command({"FLUSHALL"});
  Token(Fair('a'));
  Ask(Writer('d'));
  Ask(Reader('e'));
  EXPECT_THAT(shown(), ElementsAre(GrantId('e'), GrantId('d')));
  server_->Command({"FLUSHALL"});
  Token(Fair('a'));
  MakeReaders(66, Channel('b'));
  Ask(Writer('d'));
  Release(Fair('a'));
  server_->Command({"ZADD", Queue(), "1000", GrantId('e')});
  server_->Command({"HSET", Waiters(), GrantId('e'), "x"});
  EXPECT_THAT(shown(),
              ElementsAre(StartsWith("0000"), StartsWith("0000"), GrantId('d'), GrantId('e')));
}

}  // namespace
}  // namespace redlatch
