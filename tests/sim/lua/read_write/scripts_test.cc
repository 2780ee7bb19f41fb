// Those who write alone, and those who read alone.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ReadWriteScriptsTest, AFreeLockIsGrantedToAWriterAsAHashWithTheLeaseAsItsTtl) {
  for (int round = 0; round < 2; ++round) {  // the second finds a fence, and takes the short way
    const int64_t token = Token(Writer('a'));
    EXPECT_EQ(StoredFence(), token);
    EXPECT_EQ(server_->Text({"HGET", name_, "kind"}), "read_write/2");
    EXPECT_EQ(server_->Integer({"HLEN", name_}), 3);
    EXPECT_EQ(Count(Writer('a').owner), "1");
    EXPECT_THAT(server_->Text({"HGET", name_, Hold('a')}), HasSubstr(absl::StrCat(" ", token)));
    EXPECT_GT(Pttl(name_), 29000);
    EXPECT_LE(Pttl(name_), 30001);
    EXPECT_GT(Pttl(Fence()), 86000000);
    EXPECT_EQ(Release(Writer('a')), kReleased);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << "the fence";
  }
}

TEST_F(ReadWriteScriptsTest, ReadersShareTheLockEachWithAnExpiryOfItsOwn) {
  WriteOnce();
  EXPECT_EQ(Acquire(Reader('a')), Granted(kWritten));
  EXPECT_EQ(Acquire(For(5000, Reader('b'))), Granted(kWritten, 0, 5000));
  EXPECT_EQ(Acquire(For(60000, Reader('c'))), Granted(kWritten, 0, 60000));
  EXPECT_THAT(Reading(), ElementsAre(Hold('b'), Hold('a'), Hold('c')));
  EXPECT_NEAR(Remaining(Readers(), Hold('b')), 4500, 500);
  EXPECT_NEAR(Remaining(Readers(), Hold('a')), 29500, 500);
  EXPECT_GT(Pttl(Readers()), 59000);
  for (const char reader : {'a', 'b', 'c'}) EXPECT_EQ(Release(Reader(reader)), kReleased);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << "the fence";
  EXPECT_EQ(Release(Reader('a')), kNotHeld);
}

TEST_F(ReadWriteScriptsTest, AShorterReadDoesNotShortenTheKey) {
  Ask(Reader('a'));
  Ask(For(1000, Reader('b')));
  EXPECT_GT(Pttl(Readers()), 29000);
  Ask(For(1000, Reader('b')));
  Renew(For(1000, Reader('b')));
  EXPECT_GT(Pttl(Readers()), 29000);
  Ask(Beating(20, Reader('c')));
  EXPECT_GT(Pttl(Readers()), 29000);
}

TEST_F(ReadWriteScriptsTest, AReadersTokenIsTheLastWritesAndTheFenceStays) {
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

TEST_F(ReadWriteScriptsTest, ACrashedReaderExpiresAloneWhileOthersRenew) {
  Ask(For(30, Reader('a')));
  Ask(Reader('b'));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  AwaitEnd(Readers(), Hold('a'));
  EXPECT_EQ(Release(Reader('a')), kNotHeld);
  EXPECT_EQ(Renew(Reader('a')), kNotHeld);
  EXPECT_EQ(Renew(Reader('b')), kLastReading);
  EXPECT_THAT(Reading(), ElementsAre(Hold('b')));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_EQ(Release(Reader('b')), kReleased);
  EXPECT_EQ(Outcome(Writer('c')), "granted");
}

TEST_F(ReadWriteScriptsTest, ReadersThatExpiredAreRemovedByWhoeverReadsNext) {
  for (int way = 0; way < 3; ++way) {
    Ask(Reader('b', 10 + way));
    Ask(For(10, Reader('a', 10 + way)));
    AwaitEnd(Readers(), Hold('a', 10 + way));
    if (way == 0) Ask(Reader('c'));
    if (way == 1) Renew(Reader('c'));
    if (way == 2) Cancel(Reader('c'));
    EXPECT_THAT(Reading(), Not(::testing::Contains(Hold('a', 10 + way)))) << way;
  }
}

TEST_F(ReadWriteScriptsTest, AReadersTokenIsLargerThanAForgottenWrites) {
  const int64_t written = Token(Writer('a'));
  Release(Writer('a'));
  server_->Command({"DEL", Fence()});
  const int64_t read = Token(Reader('b'));
  EXPECT_GT(read, written);
  EXPECT_EQ(Token(Reader('c')), read) << "readers share it";
  Ear d(*server_, Channel('d')), e(*server_, Channel('e'));
  Release(Reader('b'));
  Release(Reader('c'));
  EXPECT_GT(Token(Writer('a', 2)), read);
  Ask(Reader('d'));
  server_->Command({"DEL", Fence()});
  Release(Writer('a', 2));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), StoredFence())) << "also by message";
  EXPECT_GT(StoredFence(), read);
}

}  // namespace
}  // namespace redlatch
