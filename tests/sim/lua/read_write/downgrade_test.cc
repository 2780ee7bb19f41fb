// Readers under their own write, and what is left of both.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST_F(ReadWriteScriptsTest, AReaderUnderItsOwnersWriteGetsInPastQueueAndWriters) {
  for (const Request& writer : {Writer('a'), Job('a')}) {
    server_->Command({"FLUSHALL"});
    Ear b(*server_, Channel('b'));
    const int64_t token = Token(writer);
    Ask(Writer('b'));
    EXPECT_EQ(Acquire(Nest(writer)), Granted(token, 1));
    EXPECT_EQ(Acquire(Nest(writer)), Granted(token, 1));
    EXPECT_EQ(Renew(Nest(writer)), kLastReading);
    EXPECT_EQ(Outcome(Nest(Writer('c'))), "queued") << "another's";
    EXPECT_EQ(Outcome(Impatient(Reader('a', 9))), "busy");
    EXPECT_EQ(Release(Nest(writer)), kReleased);
    EXPECT_EQ(Renew(writer), kHeld);
    EXPECT_EQ(b.Hear(), "");
  }
}

TEST_F(ReadWriteScriptsTest, ANestedReaderThatWaitedIsTakenOffTheQueue) {
  Token(Writer('a'));
  Ask(Nest(Job('b')));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b', 2)));
  Release(Writer('a'));  // passes b over, as nobody listens there
  Token(Job('b'));
  Ask(Reader('c'));
  EXPECT_EQ(Outcome(Nest(Job('b'))), "granted");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c')));
}

// As it may be another thread's.
TEST_F(ReadWriteScriptsTest, AReaderUnderAWriteThatIsOverWaitsForALaterOneOfItsClient) {
  Token(Writer('a'));
  Release(Writer('a'));
  Token(Writer('a', 3));
  EXPECT_EQ(Outcome(Impatient(Nest(Writer('a')))), "busy");
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "queued");
  EXPECT_EQ(Outcome(Nest(Writer('a', 3), 4)), "granted");
}

TEST_F(ReadWriteScriptsTest, AReaderWaitsForALaterWriteThoughItsOwnIsStillThere) {
  Token(Writer('a'));
  Token(Writer('a', 3));
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "queued");
  Release(Writer('a', 3));
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "granted");
}

// The release of the write that it reads under may be late.
TEST_F(ReadWriteScriptsTest, AWriterWaitsForAReaderUnderAnEarlierWriteOfItsClient) {
  Ear a(*server_, Channel('a'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  EXPECT_EQ(Outcome(Impatient(Writer('a', 3))), "busy");
  EXPECT_EQ(Outcome(Writer('a', 3)), "queued");
  Release(Writer('a'));
  EXPECT_EQ(a.Hear(), "");
  Release(Nest(Writer('a')));
  EXPECT_THAT(a.Hear(), StartsWith("grant"));
}

TEST_F(ReadWriteScriptsTest, WritersOfAnOwnerEnterWhenItsDowngradedReadEnds) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  const int64_t token = Token(Job('a'));
  Ask(Nest(Job('a')));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_EQ(Outcome(Claiming(2000, Job('b'))), "queued") << "a reader is left";
  EXPECT_EQ(Release(Nest(Job('a'))), kReleased);
  EXPECT_EQ(notes_, "look 2000");
  EXPECT_THAT(b.Hear(), StartsWith(absl::StrCat("grant ", Hold('b'), " 1 ", token, " 2000 1 ")));
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_EQ(Release(Job('a')), kReleased);
  EXPECT_EQ(c.Hear(), "");
  EXPECT_EQ(Release(Job('b')), kReleased);
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
}

TEST_F(ReadWriteScriptsTest, WritersOfAnOwnerEnterWhenTheLastReaderLeaves) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Reader('a'));
  Request fair = Job('b');
  fair.more = {"phase_fair"};
  Ask(fair);
  Ask(Job('c'));
  EXPECT_EQ(Release(Reader('a')), kReleased);
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_EQ(server_->Text({"HGET", name_, "policy"}), "phase_fair") << "the first one's";
}

TEST_F(ReadWriteScriptsTest, ADowngradeLetsWaitingReadersInWhereNoWriterWaits) {
  Ear b(*server_, Channel('b'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  Ask(Reader('b'));
  EXPECT_EQ(Release(Writer('a')), kReleased);
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 0));
  EXPECT_EQ(Renew(Nest(Writer('a'))), kReading);
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('a', 2), Hold('b')));
  EXPECT_EQ(Acquire(Reader('c')), Granted(StoredFence()));
}

TEST_F(ReadWriteScriptsTest, ADowngradeBeforeAWaitingWriterLetsNobodyElseIn) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  Ask(Reader('b'));
  EXPECT_GT(RetryAfter(Writer('c')), 29000);
  Release(Writer('a'));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(c.Hear(), "");
  EXPECT_EQ(Renew(Nest(Writer('a'))), kLastReading);
  Release(Nest(Writer('a')));
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(b.Hear(), "");
}

TEST_F(ReadWriteScriptsTest, APhaseFairDowngradeLetsWaitingReadersInBeforeAWriter) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Fair('a'));
  Ask(Nest(Fair('a')));
  Ask(Writer('c'));
  Ask(Reader('b'));
  Release(Fair('a'));
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 1));
  Release(Nest(Fair('a')));
  EXPECT_EQ(c.Hear(), "");
  Release(Reader('b'));
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
}

TEST_F(ReadWriteScriptsTest, ARepeatUnderAWriteThatExpiredLetsWaitingReadersIn) {
  Ear b(*server_, Channel('b'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  Ask(Reader('b'));
  server_->Command({"PEXPIRE", name_, "1"});
  AwaitExpiry(name_);
  EXPECT_EQ(Acquire(Nest(Writer('a'))), Granted(StoredFence()));
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 0));
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
}

}  // namespace
}  // namespace redlatch
