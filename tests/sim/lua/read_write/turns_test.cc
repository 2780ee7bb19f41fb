// Whose turn it is.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(ReadWriteScriptsTest, WritersGoBeforeReadersThatCameEarlier) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Reader('b'));
  Ask(Writer('c'));
  Release(Writer('a'));
  EXPECT_EQ(c.Hear(), GrantOf(Writer('c'), StoredFence(), 1));
  EXPECT_EQ(b.Hear(), "");
  Release(Writer('c'));
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 0));
}

TEST_F(ReadWriteScriptsTest, AfterAPhaseFairWriteTheReadersThatWaitGoFirst) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  const int64_t token = Token(Fair('a'));
  Ask(Fair('b'));
  Ask(Reader('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Release(Fair('a')), kReleased);
  EXPECT_EQ(c.Hear(), GrantOf(Reader('c'), token, 1));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), token, 1));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(Outcome(Reader('e')), "queued") << "it did not wait through the write";
  EXPECT_EQ(Outcome(Reader('e')), "queued");
  Release(Reader('c'));
  EXPECT_EQ(b.Hear(), "");
  Release(Reader('d'));
  EXPECT_EQ(b.Hear(), GrantOf(Fair('b'), StoredFence(), 1));
  EXPECT_EQ(server_->Text({"HGET", name_, "policy"}), "phase_fair");
  EXPECT_EQ(Count(Fair('b').owner), "1");
}

TEST_F(ReadWriteScriptsTest, APhaseFairWriteIsFollowedByAWriterWhereNoLiveReaderWaits) {
  Ear b(*server_, Channel('b'));
  Token(Fair('a'));
  Ask(Reader('c'));  // dead
  Ask(Writer('b'));
  Release(Fair('a'));
  EXPECT_EQ(b.Hear(), GrantOf(Writer('b'), StoredFence(), 0));
  EXPECT_EQ(server_->Integer({"HEXISTS", name_, "policy"}), 0);
}

TEST_F(ReadWriteScriptsTest, ThePolicyIsThatOfTheWriteThatEnds) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Fair('b'));
  Ask(Reader('c'));
  Release(Writer('a'));
  EXPECT_THAT(b.Hear(), StartsWith("grant")) << "writers first";
}

TEST_F(ReadWriteScriptsTest, APhaseFairWriteThatExpiredLetsReadersIn) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Fair('a'));
  Token(Fair('a', 2));
  Ask(Writer('b'));
  Ask(Reader('c'));
  for (const int hold : {1, 2}) server_->Command({"ZADD", Holds(), "1000", Hold('a', hold)});
  EXPECT_EQ(Outcome(Writer('d')), "queued");
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
}

TEST_F(ReadWriteScriptsTest, WhoDoesNotWaitIsToldWhenItCanPay) {
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

TEST_F(ReadWriteScriptsTest, AWriterThatWaitsGoesBeforeReadersOfAnExpiredWrite) {
  Ear b(*server_, Channel('b'));
  Token(Writer('a'));
  Ask(Reader('b'));
  Expire(name_);
  EXPECT_EQ(Outcome(Writer('c')), "granted");
  EXPECT_EQ(b.Hear(), "");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b')));
}

TEST_F(ReadWriteScriptsTest, AnOverdueWaiterIsPassedOverWhereAnotherLives) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  Token(Writer('a'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  Ask(Reader('d'));
  MakeOverdue(Hold('b'));
  MakeOverdue(Hold('c'));
  Release(Writer('a'));
  EXPECT_THAT(d.Hear(), StartsWith("grant"));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(c.Hear(), "");
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(WaitingWriters(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, WhereAllAreOverdueTheFirstWriterWithASubscriberGetsIt) {
  Ear c(*server_, Channel('c')), d(*server_, Channel('d')), e(*server_, Channel('e'));
  Token(Writer('a'));
  for (const Request& late : {Writer('b'), Reader('e'), Writer('c'), Writer('d')}) {
    Ask(late);
    MakeOverdue(late.hold);
  }
  Release(Writer('a'));
  EXPECT_EQ(c.Hear(), GrantOf(Writer('c'), StoredFence(), 2));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d'), Hold('e')));
}

TEST_F(ReadWriteScriptsTest, WhereAllAreOverdueReadersGetItTogether) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  for (const Request& late : {Reader('b'), Reader('c')}) {
    Ask(late);
    MakeOverdue(late.hold);
  }
  Release(Writer('a'));
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
}

}  // namespace
}  // namespace redlatch
