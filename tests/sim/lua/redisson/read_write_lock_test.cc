// Redisson's read-write lock: a hash with a mode, and a key that expires for each hold of a reader.
#include "tests/sim/lua/redisson/fixture.h"

namespace redlatch {
namespace {

struct RedissonReadWriteScripts : RedissonScripts {
  RedissonReadWriteScripts() : RedissonScripts(RedissonReadWriteLock()) {}

  const LockScripts& ScriptsFor(const Request& request) const override {
    return request.owner.size() == 32 ? scripts_ : reading_;
  }
  static Request Reader(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.owner = absl::StrCat("read:7:", request.owner);
    return request;
  }
  static Request Nest(char client, int sequence) {  // under its first write
    Request request = Of(client, sequence);
    request.owner = absl::StrCat("nest:7:", GrantId(client));
    return request;
  }
  static std::string HoldOf(const std::string& reader, int number = 1) {
    return absl::StrCat("{orders:42}:", reader, ":rwlock_timeout:", number);
  }
  std::string Mode() { return Field("mode"); }
  void PutReaders(int count, const std::string& holds) {
    for (int i = 0; i < count; ++i) Put({"HSET", name_, absl::StrCat(kJava, i), holds});
  }

  const LockScripts reading_ = {.acquire = lua::kRedissonReadWriteLockAcquireRead,
                                .release = lua::kRedissonReadWriteLockReleaseRead,
                                .renew = lua::kRedissonReadWriteLockRenewRead,
                                .cancel = lua::kRedissonReadWriteLockCancelRead};
};

TEST_F(RedissonReadWriteScripts, ReadersShareAndTheLastTellsWaiters) {
  Inbox java(*server_, "redisson_rwlock:{orders:42}");
  EXPECT_EQ(Acquire(For(60000, Reader('a'))), Granted(60000));
  EXPECT_EQ(Acquire(Reader('b')), Granted());
  EXPECT_EQ(Mode(), "read");
  EXPECT_EQ(Pttl(name_), 60000) << "as long as the longest";
  EXPECT_EQ(Pttl(HoldOf(GrantId('b'))), 30000);
  EXPECT_EQ(Acquire(Of('c')), Queued(60000));
  EXPECT_EQ(Acquire(Impatient(Of('c'))), Busy(60000));
  EXPECT_EQ(Release(Reader('c')), kNotHeld);
  EXPECT_EQ(Release(Reader('a')), kReleased);
  EXPECT_EQ(Pttl(name_), 30000);
  EXPECT_EQ(java.Next(), "");
  EXPECT_EQ(Release(Reader('b')), kReleased);
  EXPECT_EQ(Release(Reader('b')), kReleased) << "a repeat";
  EXPECT_EQ(java.Next(), "0");
  EXPECT_FALSE(Exists(name_));
  EXPECT_EQ(Acquire(Reader('b')), kGone);
  EXPECT_EQ(Acquire(Reader('b', 2)), Queued(5));
  EXPECT_EQ(Acquire(Of('b', 3)), Queued(5));
  EXPECT_EQ(Acquire(Of('c')), Granted());
}

TEST_F(RedissonReadWriteScripts, WriterExcludesAllButReadsOfItsOwn) {
  Inbox java(*server_, "redisson_rwlock:{orders:42}");
  EXPECT_EQ(Acquire(Of('a')), Granted());
  EXPECT_EQ(Field(GrantId('a') + ":write"), "1");
  EXPECT_EQ(Acquire(Again(Of('a'))), Granted());
  EXPECT_EQ(Acquire(Reader('b')), Queued(30000));
  EXPECT_EQ(Acquire(Nest('b', 1)), Queued(30000)) << "b has no write";
  EXPECT_EQ(Acquire(Nest('a', 2)), Granted());
  EXPECT_EQ(Acquire(For(20000, Nest('a', 3))), Granted(20000));
  EXPECT_EQ(Release(Nest('a', 2)), kReleased);
  EXPECT_EQ(Mode(), "write");
  EXPECT_EQ(Renew(For(60000, Of('a'))), kHeld);
  EXPECT_EQ(Release(Of('b')), kNotHeld);
  EXPECT_EQ(java.Next(), "");
  EXPECT_EQ(ReleaseAndQueue(Of('a'), Of('a', 4)).DebugString(),
            "[\"released\", \"queued\", 20000, 0, 0]");
  EXPECT_EQ(Mode(), "read") << "it is downgraded";
  EXPECT_EQ(Pttl(name_), 20000) << "no longer than the read";
  EXPECT_EQ(java.Next(), "1") << "which wakes one of Java's threads";
  EXPECT_EQ(java.Next(), "0") << "which wakes all";
  EXPECT_EQ(Acquire(Reader('b')), Granted());
}

TEST_F(RedissonReadWriteScripts, RepeatedReadIsProlongedUnlessManual) {
  Ask(Reader('a'));
  server_->Pass(10000);
  EXPECT_EQ(Acquire(Manual(Again(Reader('a')))), Granted(20000));
  EXPECT_EQ(Acquire(Again(Reader('a'))), Granted());
  EXPECT_EQ(Renew(For(60000, Reader('a'))), kHeld);
  EXPECT_EQ(Renew(For(100, Reader('a'))), kHeld);
  EXPECT_EQ(Pttl(HoldOf(GrantId('a'))), 60000);
  EXPECT_EQ(Pttl(name_), 60000);
  EXPECT_EQ(Renew(Reader('b')), kNotHeld);
  // Its hold has expired, and other readers keep its field.
  for (const bool renews : {false, true}) {
    server_->Do({"DEL", HoldOf(GrantId('a'))});
    EXPECT_EQ(renews ? Renew(Reader('a')) : Acquire(Manual(Again(Reader('a')))),
              renews ? kHeld : Granted());
    EXPECT_EQ(Pttl(HoldOf(GrantId('a'))), 30000);
  }
}

TEST_F(RedissonReadWriteScripts, CancelEndsOnlyTheGrantOfItsRequest) {
  for (const auto& [request, other] : {std::pair(Of('a'), Of('b')), {Reader('a'), Reader('b')}}) {
    server_->Do({"FLUSHALL"});
    Ask(request);
    EXPECT_EQ(Cancel(other, 5000), kUnknown);
    EXPECT_EQ(Acquire(other), kGone);
    EXPECT_TRUE(Exists(name_));
    EXPECT_EQ(Cancel(request), kPassedOn);
    EXPECT_FALSE(Exists(name_));
    EXPECT_EQ(Acquire(request), Granted()) << "it was cancelled without a tombstone";
  }
}

TEST_F(RedissonReadWriteScripts, PeopleSeeAndEndAllOfIt) {
  EXPECT_EQ(ForceRelease(), kFree);
  Put({"HSET", name_, "mode", "read", kJava, "1"});
  Ask(Reader('a'));
  EXPECT_EQ(Inspect(), absl::StrCat("[\"redisson_read_write_lock\", \"0\", [[\"", kJava,
                                    "\", \"\", 30000, 1], [\"", GrantId('a'), "\", \"",
                                    std::string(32, 'a'), "\", 30000, 1]], 0, [], 2]"));
  Inbox java(*server_, "redisson_rwlock:{orders:42}"), holder(*server_, Channel('a'));
  EXPECT_EQ(ForceRelease(), absl::StrCat("[\"released\", \"", GrantId('a'), "\"]"));
  EXPECT_EQ(holder.Next(), absl::StrCat("forced ", GrantId('a'), " ", name_));
  EXPECT_EQ(java.Next(), "1");
  EXPECT_FALSE(Exists(name_));
  PutReaders(300, "1");
  Put({"HSET", name_, "mode", "read"});
  const redis::Reply listed = Eval(scripts_.inspect, {}, {"1000"});
  EXPECT_EQ(listed.elements[2].elements.size(), 100);
  EXPECT_EQ(listed.elements[5].integer, 300);
}

// Of very many readers, a call looks at 64, and removes those that have died.
TEST_F(RedissonReadWriteScripts, LockOfVeryManyDeadReadersBecomesFree) {
  Ask(Reader('a'));
  PutReaders(150, "1");
  const uint64_t before = server_->calls_in_scripts();
  EXPECT_EQ(Release(Reader('a')), kReleased);
  EXPECT_LT(server_->calls_in_scripts() - before, 500);
  EXPECT_EQ(notes_, "look 1");
  EXPECT_TRUE(Exists(name_));
  EXPECT_EQ(Cancel(Reader('b')), kUnknown);
  EXPECT_EQ(notes_, "") << "it has seen all that were left";
  EXPECT_FALSE(Exists(name_));
}

// A hold beyond those at which it looks may last.
TEST_F(RedissonReadWriteScripts, UnseenHoldsKeepTheLock) {
  for (const std::string holds : {"9", "1e9", "inf", "nan"}) {
    server_->Do({"FLUSHALL"});
    Put({"SET", HoldOf(absl::StrCat(kJava, 0)), "1", "PX", "1000"});
    for (const Request& request : {Reader('a'), Of('a', 2)}) {
      Ask(request);
      PutReaders(1, holds);
      EXPECT_EQ(Release(request), kReleased);
      EXPECT_EQ(Mode(), "read");
      EXPECT_GT(Pttl(name_), 29'000) << "about as before";
      server_->Do({"DEL", name_});
    }
  }
}

}  // namespace
}  // namespace redlatch
