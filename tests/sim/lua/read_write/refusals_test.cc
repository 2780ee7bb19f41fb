// Repeated and late requests, refusals, and what is for people.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

// Repeated and late requests.

TEST_F(ReadWriteScripts, LateReadRequestIsGone) {
  EXPECT_EQ(Cancel(Reader('b'), 5000), kUnknown);
  EXPECT_GT(Pttl(Gone(GrantId('b'))), 4000);
  EXPECT_EQ(Outcome(Reader('b')), "gone");
  Token(Writer('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Cancel(Reader('d'), 5000), kLeft);
  EXPECT_EQ(Outcome(Reader('d')), "gone");
  EXPECT_EQ(Release(Writer('c'), 0, 0, 5000), kReleased);
  EXPECT_EQ(Outcome(Writer('c')), "gone");
  Ask(Reader('e'));
  EXPECT_EQ(Release(Reader('e'), 0, 0, 5000), kReleased);
  EXPECT_EQ(Outcome(Reader('e')), "gone");
  Ask(Reader('f'));
  EXPECT_EQ(Cancel(Reader('f'), 5000), kPassedOn);
  EXPECT_EQ(Outcome(Reader('f')), "gone");
  EXPECT_EQ(Release(Reader('g'), 0, 0, 5000), kNotHeld);
  EXPECT_EQ(Outcome(Reader('g')), "gone");
  EXPECT_EQ(server_->Integer({"EXISTS", name_, Readers(), Queue(), Writers()}), 0);
}

TEST_F(ReadWriteScripts, ReaderIsQueuedAgainBehindWriter) {
  Inbox b(*server_, Channel('b'));
  Ask(Reader('a'));
  redis::Reply reply = ReleaseAndQueue(Reader('a'), Reader('a', 2));
  EXPECT_EQ(reply.elements[1].text, "granted") << reply.DebugString();
  EXPECT_THAT(Reading(), ElementsAre(GrantId('a', 2)));
  Ask(Writer('b'));
  reply = ReleaseAndQueue(Reader('a', 2), Reader('a', 3));
  EXPECT_EQ(reply.elements[1].text, "queued") << reply.DebugString();
  EXPECT_THAT(b.Next(), StartsWith("grant"));
  EXPECT_EQ(First(ReleaseAndQueue(Reader('a', 2), Reader('a', 4))), "not_held");
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('a', 3)));
  Cancel(Reader('a', 5), 5000);
  Ask(Nest(Writer('b'), 4));
  EXPECT_EQ(ReleaseAndQueue(Nest(Writer('b'), 4), Reader('a', 5)).DebugString(),
            "[\"released\", \"gone\"]");
}

TEST_F(ReadWriteScripts, RepeatedReadRequeueCountsOnce) {
  for (const bool writer_waits : {false, true}) {
    SCOPED_TRACE(writer_waits);
    Inbox b(*server_, Channel('b'));
    Ask(Reader('a'));
    Ask(For(1000, Reader('a', 2)));
    if (writer_waits) Ask(Writer('b'));
    const redis::Reply reply = ReleaseAndQueue(Reader('a'), Reader('a', 2));
    EXPECT_EQ(reply.elements[1].text, "granted") << reply.DebugString();
    EXPECT_EQ(reply.elements[3].integer, 30000);
    EXPECT_EQ(reply.elements[4].integer, writer_waits ? 1 : 0);
    EXPECT_THAT(WaitingReaders(), IsEmpty());
    EXPECT_THAT(Reading(), ElementsAre(GrantId('a', 2)));
    EXPECT_EQ(Release(Reader('a', 2)), kReleased);
    EXPECT_EQ(Owner() == Of('b').owner, writer_waits);
  }
}

TEST_F(ReadWriteScripts, ReleaseRemovesReadFromQueue) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  for (const int others_read : {0, 1}) {
    for (const int gone_ms : {0, 5000}) {
      SCOPED_TRACE(absl::StrCat(others_read, " ", gone_ms));
      server_->Command({"FLUSHALL"});
      Ask(Reader('a'));
      if (others_read == 1) Ask(Reader('d'));
      Ask(Writer('b'));
      Ask(Reader('c'));
      // As if a duplicate of its request had come late.
      server_->Command({"ZADD", Queue(), "1", GrantId('a')});
      SetRecord(GrantId('a'), Record(GrantId('c')));
      EXPECT_EQ(Release(Reader('a'), 0, 0, gone_ms), kReleased);
      EXPECT_THAT(WaitingReaders(), ElementsAre(GrantId('c')));
      if (others_read == 1) {
        EXPECT_EQ(Release(Reader('d')), kReleased);
      }
      EXPECT_EQ(Owner(), Of('b').owner);
    }
  }
}

// Refusals.

// For the lock's own key, see other_kinds_test.cc.
TEST_F(ReadWriteScripts, ForeignKeysAreRefusedUntouched) {
  for (const std::string& key : {Readers(), Writers()}) {
    server_->Command({"FLUSHALL"});
    server_->Command({"SET", key, "x", "PX", "30000"});
    std::vector<std::string> replies = {
        Release(Reader('a')), Cancel(Reader('a')), Renew(Reader('a')), Release(Writer('a')),
        Cancel(Writer('a')),  Inspect(),           ForceRelease()};
    if (key != Writers()) {  // which the fast paths need not read
      replies.push_back(Acquire(Writer('a')));
      replies.push_back(Acquire(Reader('a')));
    }
    ExpectRefused(key, "WRONGTYPE", replies);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << key;
  }
}

TEST_F(ReadWriteScripts, ForeignQueueIsRefusedBeforeWrites) {
  for (const std::string& key : {Queue(), Waiters(), Fence()}) {
    server_->Command({"FLUSHALL"});
    Token(Writer('a'));
    Ask(Writer('w'));
    Ask(Nest(Writer('a')));
    server_->Command({"DEL", key});
    server_->Command({"RPUSH", key, "x"});
    server_->Command({"PEXPIRE", key, "30000"});
    const std::string before = server_->Text({"DUMP", name_}) + server_->Text({"DUMP", Readers()});
    ExpectRefused(
        key, "WRONGTYPE",
        {Release(Writer('a')), Cancel(Writer('a')), Acquire(Writer('b')), ForceRelease()});
    if (key != Fence()) ExpectRefused(key, "WRONGTYPE", {Acquire(Reader('c'))});
    EXPECT_EQ(server_->Text({"DUMP", name_}) + server_->Text({"DUMP", Readers()}), before) << key;
  }
}

// For other reads and writes, see full_memory_test.cc.
TEST_F(ReadWriteScripts, FullMemoryDoesNotHinderReadUnderWrite) {
  Inbox c(*server_, Channel('c'));
  Token(Job('a'));
  Ask(Nest(Job('a')));
  Ask(Writer('c'));
  FillMemory();
  EXPECT_THAT(Acquire(Nest(Job('f'))), HasSubstr("OOM"));
  EXPECT_EQ(Renew(Nest(Job('a'))), kLastReading);
  EXPECT_EQ(Outcome(Nest(Job('a'))), "granted") << "a repeat";
  EXPECT_EQ(Cancel(Job('a'), 5000), kPassedOn);
  EXPECT_EQ(Release(Nest(Job('a')), 0, 0, 5000), kReleased);
  EXPECT_THAT(c.Next(), StartsWith("grant"));
}

// For people.

TEST_F(ReadWriteScripts, ForceReleaseTellsWriterAndReaders) {
  Inbox a(*server_, Channel('a'));
  Token(Job('a'));
  Ask(Nest(Job('a')));
  EXPECT_EQ(ForceRelease(),
            "[\"released\", \"" + GrantId('a') + "\", \"" + GrantId('a', 2) + "\"]");
  EXPECT_EQ(a.Next(), "forced " + GrantId('a') + " " + name_);
  EXPECT_EQ(a.Next(), "forced " + GrantId('a', 2) + " " + name_);
  EXPECT_EQ(Renew(Nest(Job('a'))), kNotHeld);
  EXPECT_EQ(ForceRelease(), kFree);
  Ask(Reader('d'));
  EXPECT_EQ(ForceRelease(), "[\"released\", \"" + GrantId('d') + "\"]");
}

TEST_F(ReadWriteScripts, InspectShowsAllAndRemovesNothing) {
  const int64_t token = Token(Job('a'));
  Ask(Nest(Job('a')));
  Ask(Fair('b'));
  Ask(Reader('c'));
  Ask(For(10, Nest(Job('a'), 3)));
  AwaitEnd(Readers(), GrantId('a', 3));
  const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
  EXPECT_EQ(reply.elements[0].text, "read_write");
  EXPECT_EQ(reply.elements[1].text, absl::StrCat(StoredFence()));
  const std::vector<redis::Reply>& holders = reply.elements[2].elements;
  ASSERT_EQ(holders.size(), 2);
  EXPECT_EQ(holders[0].elements[0].text, GrantId('a'));
  EXPECT_EQ(holders[0].elements[1].text, kJob);
  EXPECT_GT(holders[0].elements[2].integer, 29000);
  EXPECT_EQ(holders[0].elements[4].text, absl::StrCat(token)) << "since then";
  EXPECT_EQ(reply.elements[5].integer, 2);
  EXPECT_EQ(holders[1].elements[0].text, GrantId('a', 2));
  EXPECT_EQ(holders[1].elements[1].text, "read");
  EXPECT_GT(holders[1].elements[2].integer, 29000);
  EXPECT_EQ(reply.elements[3].integer, 2);
  const std::vector<redis::Reply>& waiters = reply.elements[4].elements;
  ASSERT_EQ(waiters.size(), 2);
  EXPECT_EQ(waiters[0].elements[1].text, Fair('b').owner);
  EXPECT_EQ(waiters[1].elements[1].text, Reader('c').owner);
  EXPECT_EQ(Reading().size(), 2) << "the expired one as well";
}

}  // namespace
}  // namespace redlatch
