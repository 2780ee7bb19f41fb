// Redisson's lock and fenced lock, and what all of Redisson's locks refuse.
#include "tests/sim/lua/redisson/fixture.h"

namespace redlatch {
namespace {

struct RedissonLocksScripts : RedissonScripts, public ::testing::WithParamInterface<LockKind> {
  RedissonLocksScripts() : RedissonScripts(GetParam()) {}
  // A fenced lock counts, a lock does not.
  int Token(int nth) const { return kind_.name == "redisson_fenced_lock" ? nth : 0; }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, RedissonLocksScripts,
                         ::testing::Values(RedissonLock(), RedissonFencedLock()), NameOfKind);

TEST_P(RedissonLocksScripts, OneHoldsUntilItsLeaseEnds) {
  EXPECT_EQ(Acquire(Of('a')), Granted(30000, Token(1)));
  EXPECT_EQ(Field(GrantId('a')), "1") << "how often it has locked, as Redisson counts";
  server_->Pass(1000);
  EXPECT_EQ(Acquire(Of('b')), Queued(29000));
  EXPECT_EQ(Acquire(Impatient(Of('b'))), Busy(29000));
  EXPECT_EQ(Acquire(Manual(Again(Of('a')))), Granted(29000, Token(1))) << "it is not prolonged";
  EXPECT_EQ(Acquire(Again(Of('a'))), Granted(30000, Token(1)));
  EXPECT_EQ(Renew(For(60000, Of('a'))), kHeld);
  EXPECT_EQ(Renew(For(100, Of('a'))), kHeld);
  EXPECT_EQ(Pttl(name_), 60000) << "a renewal never shortens";
  EXPECT_EQ(Renew(Of('b')), kNotHeld);
  server_->Pass(60001);
  EXPECT_EQ(Renew(Of('a')), kNotHeld);
  EXPECT_EQ(Acquire(Of('b')), Granted(30000, Token(2)));
}

TEST_P(RedissonLocksScripts, ReleaseTellsOthersAndLetsThemGoFirst) {
  Ask(Of('a'));
  EXPECT_EQ(Release(Of('b')), kNotHeld);
  EXPECT_EQ(ReleaseAndQueue(Of('a'), Of('a', 2)).DebugString(),
            absl::StrCat("[\"released\", ", Granted(30000, Token(2)).substr(1)))
      << "if no other client listens";
  Inbox java(*server_, kWord);
  EXPECT_EQ(Release(Of('a', 2)), kReleased);
  EXPECT_EQ(java.Next(), "0") << "Redisson's message of an unlock";
  EXPECT_EQ(Release(Of('a', 2)), kReleased) << "a repeat";
  EXPECT_EQ(Acquire(Of('a', 2)), kGone) << "a late request";
  EXPECT_EQ(Acquire(Of('a', 3)), Queued(5));
  EXPECT_EQ(Acquire(Of('b')), Granted(30000, Token(3)));
  EXPECT_EQ(ReleaseAndQueue(Of('b'), Of('b', 2)).DebugString(),
            "[\"released\", \"queued\", 5, 0, 0]");
  EXPECT_EQ(Acquire(Impatient(Of('b', 3))), Granted(30000, Token(4))) << "a try would be lost";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Release(Of('b', 3), 0, 0, 60000), kReleased);
  EXPECT_EQ(Pttl(Gone(GrantId('b', 3))), 60000);
}

TEST_P(RedissonLocksScripts, CancelEndsOnlyTheGrantOfItsRequest) {
  Inbox java(*server_, kWord);
  EXPECT_EQ(Cancel(Of('a'), 5000), kUnknown);
  EXPECT_EQ(Acquire(Of('a')), kGone);
  Ask(Of('a', 2));
  EXPECT_EQ(Cancel(Of('b')), kUnknown);
  EXPECT_EQ(java.Next(), "");
  EXPECT_EQ(Cancel(Of('a', 2)), kPassedOn);
  EXPECT_EQ(java.Next(), "0");
  EXPECT_FALSE(Exists(name_));
  EXPECT_EQ(Acquire(Of('a', 3)), Queued(5));
}

TEST_P(RedissonLocksScripts, ForcedReleaseTellsHolderOfThisLibrary) {
  EXPECT_EQ(ForceRelease(), kFree);
  Inbox java(*server_, kWord), holder(*server_, Channel('a'));
  Put({"HSET", name_, kJava, "3"});
  EXPECT_EQ(ForceRelease(), kReleased);
  EXPECT_EQ(java.Next(), "0");
  Ask(Of('a'));
  EXPECT_EQ(ForceRelease(), absl::StrCat("[\"released\", \"", GrantId('a'), "\"]"));
  EXPECT_EQ(holder.Next(), absl::StrCat("forced ", GrantId('a'), " ", name_));
}

TEST_P(RedissonLocksScripts, InspectShowsHolderOfEitherLanguage) {
  Inbox java(*server_, kWord);
  Put({"HSET", name_, kJava, "3"});
  EXPECT_EQ(Inspect(), absl::StrCat("[\"", kind_.name, "\", \"0\", [[\"", kJava,
                                    "\", \"\", -1, 1]], 1, [], 1]"));
  Put({"DEL", name_});
  Ask(Of('a'));
  EXPECT_EQ(Inspect(), absl::StrCat("[\"", kind_.name, "\", \"", Token(1), "\", [[\"", GrantId('a'),
                                    "\", \"", std::string(32, 'a'), "\", 30000, 1]], 1, [], 1]"));
}

struct RedissonOtherData : RedissonScripts, ::testing::WithParamInterface<LockKind> {
  RedissonOtherData() : RedissonScripts(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, RedissonOtherData,
                         ::testing::Values(RedissonLock(), RedissonFencedLock(), RedissonFairLock(),
                                           RedissonReadWriteLock(), RedissonSemaphore(),
                                           RedissonLatch()),
                         NameOfKind);

TEST_P(RedissonOtherData, IsNamedAndLeftAlone) {
  const bool counts = kind_.name == "redisson_semaphore" || kind_.name == "redisson_latch";
  const bool shares = kind_.name == "redisson_read_write_lock";
  const std::pair<std::vector<std::string>, std::string> others[] = {
      {{"RPUSH", name_, "x"}, "another program's data"},
      {{"SET", name_, "text"}, "another program's string"},
      {{"HSET", name_, "kind", "reentrant/2", "x", "1"}, "a reentrant lock"},
      {{"HSET", name_, "mode", shares ? "dark" : "read", kJava, "1"},
       shares ? "another program's hash" : "a Redisson read-write lock"},
      {{"ZADD", Auxiliary("rw.readers"), "1", "x"}, "a read-write lock"}};
  for (const auto& [command, words] : others) {
    server_->Do({"FLUSHALL"});
    server_->Do(command);
    std::vector<std::string> replies = {Ask(Of('a')).text};
    const auto also = [&](const LuaScript& script, const std::vector<std::string>& keys,
                          const std::vector<std::string>& args) {
      replies.push_back(Eval(script, keys, args).text);
    };
    if (shares) also(lua::kRedissonReadWriteLockAcquireRead, {Gone("")}, Of('b').Args());
    if (command[1] == name_ && !counts) {
      also(scripts_.inspect, {}, {"10"});
      also(scripts_.force_release, {}, {"redlatch:"});
    } else if (command[1] == name_ && kind_.name == "redisson_semaphore") {
      also(lua::kRedissonSemaphoreSetPermits, {}, {"set", "1"});
    } else if (command[1] == name_) {
      also(lua::kRedissonLatchCount, {"counted"}, {"set", "1", "1"});
    }
    ExpectRefused(command[1], absl::StrCat("is in use as ", words, ", not as a Redisson"), replies);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1);
  }
}

struct RedissonInspect : RedissonScripts {
  RedissonInspect() : RedissonScripts(RedissonLock()) {}
};

// The command does not know the kind.
TEST_F(RedissonInspect, KindIsGuessedFromKeysAndListeners) {
  struct Case {
    std::string commands, shown, channel = "none";
    int most = 10;
  };
  const Case cases[] = {
      {"PING", "nil"},
      {"SET LOCK 7 PX 1000", "nil"},
      {"SET LOCK 777777777777777777777", "nil"},
      {"HSET LOCK mode read path /x", "nil"},
      {"HSET LOCK JAVA 3", "['redisson_lock', '0', [['JAVA', '', -1, 3]], 1, [], 1]", kWord},
      {"HSET LOCK GRANT 1; SET FENCE 7",
       "['redisson_fenced_lock', '7', [['GRANT', 'CLIENT', -1, 1]], 0, [], 1]"},
      {"RPUSH QUEUE JAVA; ZADD WAITERS SOON JAVA",
       "['redisson_fair_lock', '0', [], 1, [['JAVA', 'queued', '0', 5000]], 0]"},
      {"HSET LOCK mode read JAVA 2; SET {LOCK}:JAVA:rwlock_timeout:2 1 PX 4000",
       "['redisson_read_write_lock', '0', [['JAVA', 'read', 4000, 2]], 1, [], 1]",
       "redisson_rwlock:{orders:42}"},
      {"HSET LOCK mode read JAVA 1; PEXPIRE LOCK 3000",
       "['redisson_read_write_lock', '0', [['JAVA', 'read', 3000, 1]], 0, [], 1]"},
      {"HSET LOCK mode write GRANT:write 1 JAVA 1",
       "['redisson_read_write_lock', '0', [['GRANT', 'CLIENT', -1, 1]], 0, [], 1]", "none", 1},
      {"SET LOCK 4", "['redisson_semaphore_or_latch', '0', [], 0, [], 0, 4, 0]"},
      {"SET LOCK 4", "['redisson_latch', '0', [], 0, [], 0, 4, 0]", "none", 1},
      {"SET LOCK 4", "['redisson_latch', '0', [], 1, [], 0, 4, 0]",
       "redisson_countdownlatch__channel__{orders:42}"},
      {"SET LOCK 4; ZADD permits SOON 0123456789abcdef",
       "['redisson_semaphore', '0', [['HEX', '', 5000, 1]], 0, [], 1, 5, 1]"},
      {"SET LOCK 4; ZADD timeout 922337203685477 0123456789abcdef",
       "['redisson_permit_expirable_semaphore', '0', [['HEX', '', -1, 1]], 1, [], 1, 5, 1]",
       "redisson_sc:{orders:42}"}};
  for (const auto& [commands, shown, channel, most] : cases) {
    const Inbox listener(*server_, channel);
    server_->Do({"FLUSHALL"});
    while (server_->clock() % 1000 > 0) server_->Do({"PING"});
    const std::string soon = absl::StrCat(server_->clock() / 1000 + 5000);
    const auto fill = [&](const std::string& text) {
      return absl::StrReplaceAll(text, {{"LOCK", name_},
                                        {"JAVA", kJava},
                                        {"GRANT", GrantId('a')},
                                        {"CLIENT", std::string(32, 'a')},
                                        {"FENCE", Fence()},
                                        {"QUEUE", Queue()},
                                        {"WAITERS", Waiters()},
                                        {"SOON", soon},
                                        {"'", "\""},
                                        {"HEX", "30313233343536373839616263646566"}});
    };
    for (const absl::string_view command : absl::StrSplit(fill(commands), "; ")) {
      server_->Do(absl::StrSplit(command, ' '));
    }
    const redis::Reply reply = server_->Eval(
        lua::kRedissonInspect, {name_, Queue(), Waiters(), Fence(), "permits", "timeout"},
        {absl::StrCat(most)});
    EXPECT_EQ(reply.DebugString(), fill(shown)) << commands;
  }
}

}  // namespace
}  // namespace redlatch
