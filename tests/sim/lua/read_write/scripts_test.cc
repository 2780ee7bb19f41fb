// Readers and writers, alone and together, and the order of waiters.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

TEST_F(ReadWriteScripts, WriterStoresItsPolicyIfItIsFair) {
  for (const Request& writer : {Writer('a'), Fair('a'), Fair('a', 2)}) {
    Token(writer);
    EXPECT_EQ(server_->Text({"HGET", name_, "policy"}),
              writer.more[0] == "phase_fair" ? "phase_fair" : "");
    EXPECT_EQ(Release(writer), kReleased);
  }
}

TEST_F(ReadWriteScripts, ReadersShareLockWithOwnExpiries) {
  WriteOnce();
  EXPECT_EQ(Acquire(Reader('a')), Granted(kWritten));
  EXPECT_EQ(Acquire(For(5000, Reader('b'))), Granted(kWritten, 0, 5000));
  EXPECT_EQ(Acquire(For(60000, Reader('c'))), Granted(kWritten, 0, 60000));
  EXPECT_THAT(Reading(), ElementsAre(GrantId('b'), GrantId('a'), GrantId('c')));
  EXPECT_NEAR(Remaining(Readers(), GrantId('b')), 4500, 500);
  EXPECT_NEAR(Remaining(Readers(), GrantId('a')), 29500, 500);
  EXPECT_GT(Pttl(Readers()), 59000);
  for (const char reader : {'a', 'b', 'c'}) EXPECT_EQ(Release(Reader(reader)), kReleased);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << "the fence";
  EXPECT_EQ(Release(Reader('a')), kNotHeld);
}

TEST_F(ReadWriteScripts, ReaderGetsTokenOfLastWrite) {
  const int64_t token = Token(Writer('a'));
  Release(Writer('a'));
  EXPECT_EQ(Acquire(Reader('b')), Granted(token));
  EXPECT_EQ(Acquire(Reader('c')), Granted(token));
  EXPECT_EQ(Acquire(Reader('c')), Granted(token)) << "a repeat";
  EXPECT_EQ(Release(Reader('b'), token - 5, token), kReleased);
  EXPECT_EQ(Cancel(Reader('c')), kPassedOn);
  EXPECT_EQ(StoredFence(), token);
  EXPECT_GT(Token(Writer('a', 2)), token);
}

TEST_F(ReadWriteScripts, CrashedReaderExpiresWhileOthersRenew) {
  Ask(For(30, Reader('a')));
  Ask(Reader('b'));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  AwaitEnd(Readers(), GrantId('a'));
  EXPECT_EQ(Release(Reader('a')), kNotHeld);
  EXPECT_EQ(Renew(Reader('a')), kNotHeld);
  EXPECT_EQ(Renew(Reader('b')), kLastReading);
  EXPECT_THAT(Reading(), ElementsAre(GrantId('b')));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_EQ(Release(Reader('b')), kReleased);
  EXPECT_EQ(Outcome(Writer('c')), "granted");
}

TEST_F(ReadWriteScripts, NextReaderRemovesExpiredOnes) {
  for (int way = 0; way < 3; ++way) {
    Ask(Reader('b', 10 + way));
    Ask(For(10, Reader('a', 10 + way)));
    AwaitEnd(Readers(), GrantId('a', 10 + way));
    if (way == 0) Ask(Reader('c'));
    if (way == 1) Renew(Reader('c'));
    if (way == 2) Cancel(Reader('c'));
    EXPECT_THAT(Reading(), Not(::testing::Contains(GrantId('a', 10 + way)))) << way;
  }
}

TEST_F(ReadWriteScripts, ReaderTokenExceedsForgottenWrite) {
  const int64_t written = Token(Writer('a'));
  Release(Writer('a'));
  server_->Command({"DEL", Fence()});
  const int64_t read = Token(Reader('b'));
  EXPECT_GT(read, written);
  EXPECT_EQ(Token(Reader('c')), read) << "readers share it";
  Inbox d(*server_, Channel('d')), e(*server_, Channel('e'));
  Release(Reader('b'));
  Release(Reader('c'));
  EXPECT_GT(Token(Writer('a', 2)), read);
  Ask(Reader('d'));
  server_->Command({"DEL", Fence()});
  Release(Writer('a', 2));
  EXPECT_EQ(d.Next(), GrantOf(Reader('d'), StoredFence())) << "also by message";
  EXPECT_GT(StoredFence(), read);
}

TEST_F(ReadWriteScripts, WritersGoBeforeEarlierReaders) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Reader('b'));
  Ask(Writer('c'));
  Release(Writer('a'));
  EXPECT_EQ(c.Next(), GrantOf(Writer('c'), StoredFence(), 1));
  EXPECT_EQ(b.Next(), "");
  Release(Writer('c'));
  EXPECT_EQ(b.Next(), GrantOf(Reader('b'), StoredFence(), 0));
}

TEST_F(ReadWriteScripts, ReadersGoFirstAfterPhaseFairWrite) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  const int64_t token = Token(Fair('a'));
  Ask(Fair('b'));
  Ask(Reader('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Release(Fair('a')), kReleased);
  EXPECT_EQ(c.Next(), GrantOf(Reader('c'), token, 1));
  EXPECT_EQ(d.Next(), GrantOf(Reader('d'), token, 1));
  EXPECT_EQ(b.Next(), "");
  EXPECT_EQ(Outcome(Reader('e')), "queued") << "it did not wait through the write";
  EXPECT_EQ(Outcome(Reader('e')), "queued");
  Release(Reader('c'));
  EXPECT_EQ(b.Next(), "");
  Release(Reader('d'));
  EXPECT_EQ(b.Next(), GrantOf(Fair('b'), StoredFence(), 1));
  EXPECT_EQ(server_->Text({"HGET", name_, "policy"}), "phase_fair");
  EXPECT_EQ(Count(Fair('b').owner), "1");
}

TEST_F(ReadWriteScripts, ExpiredPhaseFairWriteAdmitsReaders) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Fair('a'));
  Token(Fair('a', 2));
  Ask(Writer('b'));
  Ask(Reader('c'));
  for (const int grant : {1, 2})
    server_->Command({"ZADD", GrantsKey(), "1000", GrantId('a', grant)});
  EXPECT_EQ(Outcome(Writer('d')), "queued");
  EXPECT_THAT(c.Next(), StartsWith("grant"));
  EXPECT_EQ(b.Next(), "");
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
}

TEST_F(ReadWriteScripts, TryIsToldWhenToRetry) {
  Ask(For(5000, Reader('a')));
  Ask(For(20000, Reader('b')));
  const int64_t behind_readers = RetryAfter(Impatient(Writer('c')));
  EXPECT_GT(behind_readers, 4000);  // when the first may be dead, and the others gone
  EXPECT_LE(behind_readers, 5000);
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(WaitingWriters(), IsEmpty());
  Release(Reader('a'));
  Release(Reader('b'));
  Token(For(7000, Writer('c')));
  const int64_t behind_a_writer = RetryAfter(Impatient(Reader('a', 2)));
  EXPECT_GT(behind_a_writer, 6000);
  EXPECT_LE(behind_a_writer, 7001);
}

TEST_F(ReadWriteScripts, FirstSubscribedWriterWinsIfAllOverdue) {
  Inbox c(*server_, Channel('c')), d(*server_, Channel('d')), e(*server_, Channel('e'));
  Token(Writer('a'));
  for (const Request& late : {Writer('b'), Reader('e'), Writer('c'), Writer('d')}) {
    Ask(late);
    MakeOverdue(late.grant);
  }
  Release(Writer('a'));
  EXPECT_EQ(c.Next(), GrantOf(Writer('c'), StoredFence(), 2));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('d'), GrantId('e')));
}

TEST_F(ReadWriteScripts, NewReaderQueuesBehindWaitingWriter) {
  WriteOnce();
  Inbox b(*server_, Channel('b'));
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
  EXPECT_THAT(WaitingWriters(), ElementsAre(GrantId('b')));
  EXPECT_THAT(WaitingReaders(), ElementsAre(GrantId('c')));
  EXPECT_THAT(Reading(), ElementsAre(GrantId('a')));
}

TEST_F(ReadWriteScripts, ReaderIsRefusedBesideForeignHash) {
  Inbox w(*server_, Channel('w'));
  Ask(Reader('a'));
  Ask(Writer('w'));
  server_->Command({"HSET", name_, "field", "x"});
  server_->Command({"PEXPIRE", name_, "30000"});
  EXPECT_THAT(Acquire(Reader('b')), ::testing::HasSubstr("WRONGTYPE"));
}

TEST_F(ReadWriteScripts, CrashedWaitersLeaveAmongLiveOnes) {
  for (const bool readers : {false, true}) {
    SCOPED_TRACE(readers);
    server_->Command({"FLUSHALL"});
    Ask(For(600'000, Writer('a')));
    const auto live = [&](int i) { return readers ? Reader('b', i) : Writer('b', i); };
    for (int i = 1; i <= 10; ++i) Ask(live(i));
    for (int i = 1; i <= 40; ++i) Ask(i % 2 == 0 ? Reader('c', i) : Writer('d', i));
    for (int beat = 0; beat < 60; ++beat) {  // for a lease and three heartbeats
      server_->Pass(1000);
      Ask(Again(live(1 + beat % 10)));
    }
    EXPECT_EQ(WaitingWriters().size() + WaitingReaders().size(), 10);
    EXPECT_EQ(server_->Integer({"HLEN", Waiters()}), 10);
  }
}

TEST_F(ReadWriteScripts, NextWaitersLearnHowLongTheLockStaysTaken) {
  for (const bool reads : {false, true}) {
    const char leaves = reads ? 'b' : 'd';
    Inbox c(*server_, Channel('c')), e(*server_, Channel('e'));
    const int64_t granted = Token(Writer('a'));
    for (const char reader : {'b', 'c'}) Ask(Reader(reader));
    for (const char writer : {'d', 'e'}) Ask(Writer(writer));
    Eval(scripts_.release, {Gone(GrantId('a')), Gone(GrantId('a'))},
         {GrantId('a'), absl::StrCat("0 0 0 ", granted + 5'000'000, " 60000"), Writer('a').owner});
    EXPECT_EQ(Owner(), "taken");
    EXPECT_EQ(Cancel(reads ? Reader(leaves) : Writer(leaves)), kLeft);
    Inbox& next = reads ? c : e;
    EXPECT_EQ(next.Next(), absl::StrCat("look ", GrantId(reads ? 'c' : 'e'), " ", name_));
    server_->Command({"FLUSHALL"});
  }
}

TEST_F(ReadWriteScripts, CancelOfLastWriterAdmitsReaders) {
  WriteOnce();
  Inbox d(*server_, Channel('d')), b(*server_, Channel('b'));
  Ask(Reader('a'));
  Ask(Writer('b'));
  Ask(Writer('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Cancel(Writer('c')), kLeft);
  EXPECT_EQ(d.Next(), "");
  EXPECT_EQ(Cancel(Writer('b')), kLeft);
  EXPECT_EQ(d.Next(), GrantOf(Reader('d'), kWritten, 0));
  EXPECT_THAT(Reading(), UnorderedElementsAre(GrantId('a'), GrantId('d')));
  EXPECT_EQ(Cancel(Writer('b')), kUnknown);
}

TEST_F(ReadWriteScripts, ReaderUnderOwnWritePassesQueue) {
  for (const Request& writer : {Writer('a'), Job('a')}) {
    server_->Command({"FLUSHALL"});
    Inbox b(*server_, Channel('b'));
    const int64_t token = Token(writer);
    Ask(Writer('b'));
    EXPECT_EQ(Acquire(Nest(writer)), Granted(token, 1));
    EXPECT_EQ(Acquire(Nest(writer)), Granted(token, 1));
    EXPECT_EQ(Renew(Nest(writer)), kLastReading);
    EXPECT_EQ(Outcome(Nest(Writer('c'))), "queued") << "another's";
    EXPECT_EQ(Outcome(Impatient(Reader('a', 9))), "busy");
    EXPECT_EQ(Release(Nest(writer)), kReleased);
    EXPECT_EQ(Renew(writer), kHeld);
    EXPECT_EQ(b.Next(), "");
  }
}

TEST_F(ReadWriteScripts, ReaderWaitsForLaterWrite) {
  Token(Writer('a'));
  Token(Writer('a', 3));
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "queued");
  Release(Writer('a', 3));
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "granted");
}

// The release of the write that it reads under may be late.
TEST_F(ReadWriteScripts, WriterWaitsForReaderUnderEarlierWrite) {
  Inbox a(*server_, Channel('a'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  EXPECT_EQ(Outcome(Impatient(Writer('a', 3))), "busy");
  EXPECT_EQ(Outcome(Writer('a', 3)), "queued");
  Release(Writer('a'));
  EXPECT_EQ(a.Next(), "");
  Release(Nest(Writer('a')));
  EXPECT_THAT(a.Next(), StartsWith("grant"));
}

TEST_F(ReadWriteScripts, OwnersWritersEnterAfterDowngradedRead) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  const int64_t token = Token(Job('a'));
  Ask(Nest(Job('a')));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_EQ(Outcome(Claiming(2000, Job('b'))), "queued") << "a reader is left";
  EXPECT_EQ(Said(Release(Nest(Job('a')))), Noted(kReleased, "look 2000"));
  EXPECT_THAT(b.Next(), StartsWith(absl::StrCat("grant ", GrantId('b'), " 1 ", token, " 2000 1 ")));
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_EQ(Release(Job('a')), kReleased);
  EXPECT_EQ(c.Next(), "");
  EXPECT_EQ(Release(Job('b')), kReleased);
  EXPECT_THAT(c.Next(), StartsWith("grant"));
}

}  // namespace
}  // namespace redlatch
