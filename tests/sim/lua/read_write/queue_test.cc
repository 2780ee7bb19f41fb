// Writers that wait for readers, and readers for writers.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST_F(ReadWriteScriptsTest, AWriterWaitsForTheLastReaderWhoHandsOver) {
  Ear ear(*server_, Channel('c'));
  Ask(For(5000, Reader('a')));
  Ask(Reader('b'));
  const int64_t retry_after_ms = RetryAfter(Writer('c'));
  EXPECT_GT(retry_after_ms, 4000);
  EXPECT_LE(retry_after_ms, 5000);
  Ask(Writer('d'));
  EXPECT_EQ(Release(Reader('b')), kReleased);
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Release(Reader('a')), kReleased);
  EXPECT_EQ(ear.Hear(), GrantOf(Writer('c'), StoredFence(), 1));
  EXPECT_EQ(Count(Writer('c').owner), "1");
  EXPECT_GT(Pttl(name_), 29000);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d')));
  EXPECT_THAT(WaitingWriters(), ElementsAre(Hold('d')));
}

TEST_F(ReadWriteScriptsTest, TheEndOfAWriteWakesAllReadersInOneScriptEachWithItsGrant) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  const int64_t token = Token(Writer('a'));
  Request second = For(60000, Reader('c'));
  second.attempt = 4;
  const int64_t retry_after_ms = RetryAfter(Reader('b'));
  EXPECT_GT(retry_after_ms, 29000);
  EXPECT_LE(retry_after_ms, 30001) << "rounded up";
  EXPECT_EQ(Ask(second).elements[2].integer, 1) << "its position";
  Ask(Reader('d'));
  Ask(Reader('e'));
  EXPECT_EQ(Release(Writer('a')), kReleased);
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), token, 0));
  EXPECT_EQ(c.Hear(), GrantOf(second, token, 0));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), token, 0));
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('b'), Hold('c'), Hold('d')));
  EXPECT_GT(Pttl(Readers()), 59000);
  EXPECT_THAT(Waiting(), IsEmpty()) << "the one without a subscriber is passed over";
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
  EXPECT_EQ(StoredFence(), token);
}

TEST_F(ReadWriteScriptsTest, ANewReaderQueuesBehindAWriterThatWaitsAndThoseInsideFinish) {
  WriteOnce();
  Ear b(*server_, Channel('b'));
  EXPECT_EQ(Renew(Reader('a')), kNotHeld);
  Ask(Reader('a'));
  EXPECT_EQ(Renew(Reader('a')), kReading);
  Ask(Writer('b'));
  EXPECT_EQ(Renew(Reader('a')), kLastReading);
  EXPECT_EQ(Acquire(Reader('a')), Granted(kWritten, 1)) << "a repeat";
  const int64_t retry_after_ms = RetryAfter(Reader('c'));
  EXPECT_GT(retry_after_ms, 24000) << "when the writer would be overdue";
  EXPECT_LE(retry_after_ms, 25000);
  EXPECT_GT(RetryAfter(Impatient(Reader('d'))), 24000);
  EXPECT_THAT(WaitingWriters(), ElementsAre(Hold('b')));
  EXPECT_THAT(WaitingReaders(), ElementsAre(Hold('c')));
  EXPECT_THAT(Reading(), ElementsAre(Hold('a')));
}

TEST_F(ReadWriteScriptsTest, WritersThatWaitAreKeptForThreeHeartbeatsOfTheSlowest) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Reader('a'));
  Ask(Beating(1000, Writer('b')));
  EXPECT_GT(Pttl(Writers()), 2000);
  EXPECT_LE(Pttl(Writers()), 3000);
  Ask(Beating(2000, Writer('b')));
  EXPECT_GT(Pttl(Writers()), 5000);
  Ask(Beating(500, Writer('c')));
  EXPECT_GT(Pttl(Writers()), 5000) << "shortened by another's";
  EXPECT_THAT(WaitingWriters(), ElementsAre(Hold('b'), Hold('c')));
  EXPECT_EQ(Cancel(Writer('b')), kLeft);
  EXPECT_THAT(WaitingWriters(), ElementsAre(Hold('c')));
  EXPECT_EQ(Release(Writer('c')), kNotHeld);
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, ReadersGoOnIfTheWritersThatWaitAreForgotten) {
  Ear b(*server_, Channel('b')), d(*server_, Channel('d'));
  WriteOnce();
  Ask(Reader('a'));
  Ask(Beating(20, Writer('b')));
  EXPECT_LE(RetryAfter(Reader('c')), 60);
  Ask(Reader('d'));
  server_->Command({"DEL", Writers()});
  EXPECT_EQ(Acquire(Reader('c')), Granted(kWritten));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), kWritten, 0)) << "whichever reader asks";
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('a'), Hold('c'), Hold('d')));
  EXPECT_EQ(b.Hear(), "");
}

TEST_F(ReadWriteScriptsTest, ReadersGoOnIfTheWriterThatWaitsIsOverdue) {
  for (const bool patient : {true, false}) {
    server_->Command({"FLUSHALL"});
    Ear b(*server_, Channel('b')), d(*server_, Channel('d'));
    Ask(Reader('a'));
    Ask(Writer('b'));
    Ask(Reader('d'));
    MakeOverdue(Hold('b'));
    Request reader = Reader('c');
    reader.wait = patient;
    EXPECT_EQ(First(Ask(reader)), "granted") << patient;
    EXPECT_THAT(d.Hear(), StartsWith("grant " + Hold('d')));
    EXPECT_EQ(b.Hear(), "");
    EXPECT_THAT(Waiting(), IsEmpty());
  }
}

TEST_F(ReadWriteScriptsTest, AReaderThatComesAfterTheLastCrashedLetsTheWriterIn) {
  Ear w(*server_, Channel('w'));
  Ask(Reader('b'));
  Ask(For(30, Reader('a')));
  Ask(Writer('w'));
  Release(Reader('b'));
  AwaitEnd(Readers(), Hold('a'));
  EXPECT_EQ(Outcome(Reader('c')), "queued");
  EXPECT_THAT(w.Hear(), StartsWith("grant " + Hold('w')));
}

TEST_F(ReadWriteScriptsTest, AWriterKeepsItsQueueThoughReadersKeepTheRecords) {
  Token(Writer('a'));
  Ask(Writer('b'));
  server_->Command({"PEXPIRE", Writers(), "1000"});
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_GT(Pttl(Writers()), 20000);
}

TEST_F(ReadWriteScriptsTest, AReaderIsRefusedWhereAnotherHashStandsBesideReaders) {
  Ear w(*server_, Channel('w'));
  Ask(Reader('a'));
  Ask(Writer('w'));
  server_->Command({"HSET", name_, "field", "x"});
  server_->Command({"PEXPIRE", name_, "30000"});
  EXPECT_THAT(Acquire(Reader('b')), ::testing::HasSubstr("WRONGTYPE"));
}

TEST_F(ReadWriteScriptsTest, AnOverdueWriterComesBeforeOneThatDoesNotWait) {
  Ear b(*server_, Channel('b'));
  Ask(Reader('a'));
  Ask(Writer('b'));
  MakeOverdue(Hold('b'));
  EXPECT_EQ(Outcome(Impatient(Reader('c'))), "granted") << "others read";
  Expire(Readers());
  EXPECT_EQ(Outcome(Impatient(Reader('c', 2))), "busy");
  EXPECT_THAT(b.Hear(), StartsWith("grant " + Hold('b')));
}

TEST_F(ReadWriteScriptsTest, CrashedWaitersAreForgottenWhileWritersWait) {
  for (const bool readers_live : {false, true}) {
    SCOPED_TRACE(readers_live);
    server_->Command({"FLUSHALL"});
    Ask(Writer('a'));
    Ask(Writer('b'));
    if (readers_live) Ask(Reader('c'));
    for (int i = 1; i <= 300; ++i) {
      Ask(i % 2 == 0 ? For(30, Beating(10, Reader('d', i))) : For(30, Beating(10, Writer('e', i))));
    }
    EXPECT_GE(server_->Integer({"HLEN", Waiters()}), 301);
    EXPECT_TRUE(server_->Await([&] {
      server_->Command({"PEXPIRE", Waiters(), "20000"});  // as if it had been there for long
      Ask(Again(Writer('b')));
      return server_->Integer({"HLEN", Waiters()}) == (readers_live ? 2 : 1);
    }));
    EXPECT_THAT(WaitingWriters(), ElementsAre(Hold('b')));
    EXPECT_EQ(WaitingReaders().size(), readers_live ? 1 : 0);
  }
}

TEST_F(ReadWriteScriptsTest, ADeadWriterHoldsNobodyBack) {
  Ear e(*server_, Channel('e'));
  WriteOnce();
  Ask(Reader('a'));
  Ask(Writer('b'));  // nobody listens there
  EXPECT_EQ(Acquire(Impatient(Reader('c'))), Granted(kWritten));
  EXPECT_THAT(WaitingWriters(), IsEmpty());
  EXPECT_THAT(Waiting(), IsEmpty());
  Ask(Writer('b', 2));
  EXPECT_EQ(Outcome(Writer('e')), "queued");
  EXPECT_EQ(Outcome(Reader('d')), "queued") << "the other writer lives";
  Cancel(Writer('e'));
  EXPECT_THAT(WaitingWriters(), IsEmpty());
  EXPECT_EQ(Outcome(Reader('d')), "granted");
}

TEST_F(ReadWriteScriptsTest, TheLastReaderPassesADeadWriterOver) {
  WriteOnce();
  Ear c(*server_, Channel('c')), d(*server_, Channel('d'));
  Ask(Reader('a'));
  auto b = std::make_unique<Ear>(*server_, Channel('b'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  Ask(Reader('d'));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('c'), Hold('d')));
  b.reset();
  EXPECT_EQ(Release(Reader('a')), kReleased);
  EXPECT_EQ(c.Hear(), GrantOf(Reader('c'), kWritten, 0));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), kWritten, 0));
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(WaitingWriters(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, TheCancelOfTheLastWaitingWriterLetsReadersIn) {
  WriteOnce();
  Ear d(*server_, Channel('d')), b(*server_, Channel('b'));
  Ask(Reader('a'));
  Ask(Writer('b'));
  Ask(Writer('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Cancel(Writer('c')), kLeft);
  EXPECT_EQ(d.Hear(), "");
  EXPECT_EQ(Cancel(Writer('b')), kLeft);
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), kWritten, 0));
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('a'), Hold('d')));
  EXPECT_EQ(Cancel(Writer('b')), kUnknown);
}

TEST_F(ReadWriteScriptsTest, ACancelOfTheLastReadOrWriteHandsOver) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Reader('a'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  EXPECT_EQ(Cancel(Reader('a')), kPassedOn);
  EXPECT_EQ(b.Hear(), GrantOf(Writer('b'), StoredFence(), 1));
  Request block = Writer('b');
  block.block = 1;
  EXPECT_EQ(Cancel(block), kPassedOn);
  EXPECT_EQ(c.Hear(), GrantOf(Reader('c'), StoredFence(), 0));
}

}  // namespace
}  // namespace redlatch
