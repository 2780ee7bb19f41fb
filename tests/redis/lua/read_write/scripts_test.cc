// Those who write alone, and those who read alone.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/read_write/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

TEST_F(ReadWriteScriptsTest, AWriterWritesDownItsPolicy) {
  for (int round = 0; round < 2; ++round) {
    Token(Fair('a'));
    EXPECT_EQ(server_->Text({"HGET", name_, "policy"}), "phase_fair");
    EXPECT_EQ(Count(Fair('a').owner), "1");
    EXPECT_EQ(Release(Fair('a')), kReleased);
    EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
  }
}

TEST_F(ReadWriteScriptsTest, ARepeatedAcquireIsOneHoldWithItsToken) {
  Request request = Writer('a');
  request.block = 8;
  const int64_t token = Token(request);
  EXPECT_EQ(Acquire(request), Granted(token));
  EXPECT_EQ(Count(request.owner), "1");
  EXPECT_EQ(StoredFence(), token + 7);
  EXPECT_EQ(Release(request, token, token + 7), kReleased);
  EXPECT_EQ(StoredFence(), token);
  EXPECT_EQ(Release(request), kNotHeld);
}

TEST_F(ReadWriteScriptsTest, AWriterThatHasTheLockIsLetInAtOncePastTheQueue) {
  Ear ear(*server_, Channel('c'));
  const int64_t first = Token(Job('a'));
  Ask(Writer('c'));
  // They stand for one another, so a store must take the tokens of both.
  EXPECT_EQ(Token(Job('b')), first);
  EXPECT_EQ(Token(Job('a')), first);
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_EQ(Release(Job('a')), kReleased);
  EXPECT_EQ(Release(Job('a')), kNotHeld);
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Release(Job('b')), kReleased);
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('c')));
  EXPECT_EQ(Count(Writer('c').owner), "1");
  EXPECT_EQ(Count(kJob), "");
}

TEST_F(ReadWriteScriptsTest, FurtherHoldsOfAClientHaveTokensOfTheirOwn) {
  const int64_t first = Token(Writer('a'));
  const int64_t second = Token(Writer('a', 2));
  EXPECT_GT(second, first);
  EXPECT_EQ(Token(Writer('a')), first);
  EXPECT_EQ(Count(Writer('a').owner), "2");
  EXPECT_EQ(Release(Writer('a', 2)), kReleased);
  EXPECT_EQ(Renew(Writer('a')), kHeld);
  EXPECT_EQ(Release(Writer('a')), kReleased);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << "the fence";
}

TEST_F(ReadWriteScriptsTest, AWriteHoldIsRenewedAndNeverShortened) {
  Token(For(5000, Writer('a')));
  EXPECT_EQ(Renew(For(20000, Writer('a'))), kHeld);
  EXPECT_GT(Pttl(name_), 19000);
  EXPECT_EQ(Renew(For(1000, Writer('a'))), kHeld);
  EXPECT_GT(Pttl(name_), 19000);
  EXPECT_EQ(Renew(Writer('b')), kNotHeld);
}

TEST_F(ReadWriteScriptsTest, ReadersShareTheLockEachWithAnExpiryOfItsOwn) {
  EXPECT_EQ(Acquire(Reader('a')), Granted(0));
  EXPECT_EQ(Acquire(For(5000, Reader('b'))), Granted(0, 0, 5000));
  EXPECT_EQ(Acquire(For(60000, Reader('c'))), Granted(0, 0, 60000));
  EXPECT_THAT(Reading(), ElementsAre(Hold('b'), Hold('a'), Hold('c')));
  EXPECT_NEAR(Remaining(Readers(), Hold('b')), 4500, 500);
  EXPECT_NEAR(Remaining(Readers(), Hold('a')), 29500, 500);
  EXPECT_GT(Pttl(Readers()), 59000);
  for (const char reader : {'a', 'b', 'c'}) EXPECT_EQ(Release(Reader(reader)), kReleased);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
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

TEST_F(ReadWriteScriptsTest, ARepeatedReadIsReArmedAndNeverShortened) {
  Ask(For(5000, Reader('a')));
  EXPECT_EQ(Acquire(For(20000, Reader('a'))), Granted(0, 0, 20000));
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_GT(Ask(For(1000, Reader('a'))).elements[2].integer, 19000);
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_GT(Pttl(Readers()), 19000);
  EXPECT_EQ(Reading().size(), 1);
}

TEST_F(ReadWriteScriptsTest, AManualReadIsNotExtendedByARepeat) {
  Request request = For(5000, Reader('a'));
  request.manual = true;
  Ask(request);
  request.lease_ms = 60000;
  EXPECT_LE(Ask(request).elements[2].integer, 5000);
  EXPECT_LE(Remaining(Readers(), Hold('a')), 5000);
}

TEST_F(ReadWriteScriptsTest, AReadIsRenewedAndNeverShortened) {
  Ask(For(5000, Reader('a')));
  EXPECT_EQ(Renew(For(20000, Reader('a'))), kReading);
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_GT(Pttl(Readers()), 19000);
  EXPECT_EQ(Renew(For(1000, Reader('a'))), kReading);
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_EQ(Renew(Reader('b')), kNotHeld);
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

TEST_F(ReadWriteScriptsTest, AnExpiredReadIsAcquiredAnew) {
  Ask(Reader('b'));
  Ask(For(10, Reader('a')));
  AwaitEnd(Readers(), Hold('a'));
  EXPECT_EQ(Acquire(Reader('a')), Granted(0));
  EXPECT_GT(Remaining(Readers(), Hold('a')), 29000);
}

}  // namespace
}  // namespace redlatch
