// Claims, handover checks and notes of the read-write lock.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

constexpr int kReadWriteClaim = 2000;

using ReadWriteClaim = ReadWriteScripts;

TEST_F(ReadWriteClaim, EachWokenReaderHasOwnClaim) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  const int64_t token = Token(Writer('a'));
  Ask(Claiming(kReadWriteClaim, Reader('b')));
  Ask(Claiming(3000, Reader('c')));
  EXPECT_EQ(Said(Release(Writer('a'))), Noted(kReleased, "look 3000")) << "the longest";
  EXPECT_EQ(b.Next(), absl::StrCat("grant ", GrantId('b'), " 1 ", token, " 2000 0 ", name_));
  EXPECT_EQ(c.Next(), absl::StrCat("grant ", GrantId('c'), " 1 ", token, " 3000 0 ", name_));
  EXPECT_LE(Remaining(Readers(), GrantId('b')), kReadWriteClaim);
  EXPECT_GT(Remaining(Readers(), GrantId('c')), kReadWriteClaim);
  EXPECT_LE(Pttl(Readers()), 3000);
  EXPECT_EQ(Renew(Reader('b')), kReading);
  EXPECT_GT(Remaining(Readers(), GrantId('b')), 29000);
  EXPECT_LE(Remaining(Readers(), GrantId('c')), 3000);
  EXPECT_GT(Pttl(Readers()), 29000);
}

TEST_F(ReadWriteClaim, WriterRetriesWhenFirstReaderClaimEnds) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Claiming(kReadWriteClaim, Reader('b')));
  Ask(Claiming(3000, Reader('c')));
  Release(Writer('a'));
  const int64_t retry_after_ms = RetryAfter(Writer('d'));
  EXPECT_GT(retry_after_ms, 0);
  EXPECT_LE(retry_after_ms, kReadWriteClaim);
}

TEST_F(ReadWriteClaim, EveryScriptHandsOverFreeLock) {
  const Request write = Writer('a'), read = Reader('a', 2);
  const std::vector<std::function<std::string()>> ways = {
      [&] { return Release(write); },
      [&] { return Release(read); },
      [&] { return Release(Writer('c'), 0, 0, 5000); },
      [&] { return Release(Reader('c', 2), 0, 0, 5000); },
      [&] { return Cancel(write); },
      [&] { return Cancel(read); },
      [&] { return Outcome(Impatient(Writer('c', 3))); },
      [&] { return ForceRelease(); }};
  for (const Request& next : {Writer('b'), Reader('b')}) {
    Inbox inbox(*server_, Channel('b'));
    for (size_t way = 0; way < ways.size(); ++way) {
      const bool behind_a_write = next.owner.starts_with("read:") || way % 2 == 0;
      Ask(behind_a_write ? write : read);
      Ask(Claiming(kReadWriteClaim, next));
      Expire(name_);
      Expire(Readers());
      const std::string reply = ways[way]();
      EXPECT_EQ(notes_, "look 2000") << reply;
      EXPECT_THAT(reply, ::testing::AnyOf(kNotHeld, kUnknown, "busy", kFree));
      EXPECT_THAT(inbox.Next(), StartsWith("grant " + GrantId('b'))) << next.owner << " " << way;
      EXPECT_EQ(Release(next), kReleased);
    }
  }
}

}  // namespace
}  // namespace redlatch
