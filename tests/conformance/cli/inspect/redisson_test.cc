// Tests `redlatch ls`, `inspect` and `break` with Redisson's keys, which raw commands write here as
// Redisson's scripts do.
#include "src/redis/connect/plain_connection.h"
#include "src/redis/url/url.h"
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

constexpr char kJava[] = "3f2a77aa-12cd-4e5f-8a9b-0123456789ab:77";
constexpr char kOther[] = "b1946ac9-2492-4d23-8c1f-0123456789ab:12";

struct RedlatchRedissonTest : RedlatchOutputTest {
  void Do(const Words& words) const { EXPECT_FALSE(server_->Command(words).is_error()); }

  // RLock: each lock() of a thread adds one.
  void Lock(const std::string& name, const std::string& holder, const std::string& count) const {
    Do({"HINCRBY", name, holder, count});
    Do({"PEXPIRE", name, "30000"});
  }
  // RFairLock: a waiter keeps its place for that long.
  void Queue(const std::string& name, const std::string& waiter, absl::Duration keeps) const {
    Do({"ZADD", "redisson_lock_timeout:{" + name + "}",
        absl::StrCat(absl::ToUnixMillis(absl::Now() + keeps)), waiter});
    Do({"RPUSH", "redisson_lock_queue:{" + name + "}", waiter});
  }
  void FencedLock() const {
    Do({"INCR", "redisson_lock_token:{fenced}"});
    Do({"HSET", "fenced", kJava, "1"});
    Do({"PEXPIRE", "fenced", "30000"});
  }
  // RReadWriteLock: the thread reads twice; its first read ends sooner.
  void ReadLock(const std::string& name) const {
    Do({"HSET", name, "mode", "read"});
    Do({"HSET", name, kJava, "2"});
    Do({"SET", "{" + name + "}:" + kJava + ":rwlock_timeout:1", "1", "PX", "5000"});
    Do({"SET", "{" + name + "}:" + kJava + ":rwlock_timeout:2", "1", "PX", "20000"});
    Do({"PEXPIRE", name, "30000"});
  }
  void WriteLock(const std::string& name) const {
    Do({"HSET", name, "mode", "write"});
    Do({"HSET", name, absl::StrCat(kJava, ":write"), "1"});
    Do({"PEXPIRE", name, "30000"});
  }
  // RPermitExpirableSemaphore: two of five permits are taken, one without end.
  void ExpirableSemaphore(const std::string& name) const {
    Do({"SET", name, "3"});
    const std::string ends = absl::StrCat(absl::ToUnixMillis(absl::Now()) + 60'000);
    Do({"ZADD", "{" + name + "}:timeout", ends, std::string("\x00\x01\xfe\xff 123456789ab", 16)});
    Do({"ZADD", "{" + name + "}:timeout", "922337203685477", "0123456789abcdef"});
  }
};

TEST_F(RedlatchRedissonTest, LsNamesEachKindInWords) {
  Lock("a:lock", kJava, "1");
  Lock("b:fair", kJava, "1");
  Queue("b:fair", kOther, absl::Seconds(300));
  FencedLock();
  ReadLock("r:read");
  WriteLock("s:write");
  ExpirableSemaphore("t:permits");
  const std::string java(kJava);
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          ContainsRegex("^a:lock +Redisson lock +held +[23][0-9.]+s +0 +" + java + "$"),
          ContainsRegex("^b:fair +Redisson fair lock +held +[23][0-9.]+s +1 +" + java + "$"),
          ContainsRegex("^fenced +Redisson fenced lock +held +[23][0-9.]+s +0 +" + java + "$"),
          ContainsRegex("^r:read +Redisson read-write lock +read by 1 +[0-9.]+s +0 +" + java),
          ContainsRegex("^s:write +Redisson read-write lock +written +[23][0-9.]+s +0 +" + java),
          ContainsRegex("^t:permits +Redisson expirable semaphore +3 free +.*m?s +0 +"
                        "0001fe.* and 1 more$")))
      << Redlatch({"ls"}).output;
  EXPECT_EQ(Json(Redlatch({"ls", "--json"}).output,
                 "[(r['kind'], r['in_use'], r['holding'], r['waiting'], r['holder']['hold'][:4]) "
                 "for r in rows][:3]"),
            "[('redisson_lock', True, 1, 0, '3f2a'), ('redisson_fair_lock', True, 1, 1, '3f2a'), "
            "('redisson_fenced_lock', True, 1, 0, '3f2a')]");
  EXPECT_THAT(Lines({"--names", "?:*k"}), ElementsAre("a:lock"));
}

TEST_F(RedlatchRedissonTest, LsAcceptsNamesWithHashTags) {
  Do({"HSET", "{tag}:fair", kJava, "1"});
  Do({"RPUSH", "redisson_lock_queue:{tag}:fair", kOther});
  Do({"ZADD", "redisson_lock_timeout:{tag}:fair", "1", kOther});
  Do({"SET", "{tag}:permits", "1"});
  Do({"ZADD", "{tag}:permits:timeout", "922337203685477", "0123456789abcdef"});
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^\\{tag\\}:fair +Redisson fair lock +held"),
                                   ContainsRegex("^\\{tag\\}:permits +Redisson expirable")));
}

TEST_F(RedlatchRedissonTest, LsLeavesOutWhatMayBeData) {
  Do({"SET", "count", "12"});
  Do({"HSET", "user", "name", "x"});
  Do({"HSET", "mode", "mode", "dark"});
  Do({"HSET", "own", "kind", "cooldown", kJava, "1"});
  Do({"HSET", "mixed", "name", "x", kJava, "1"});
  Do({"SET", "text", "hello"});
  Do({"ZADD", "{text}:timeout", "1", "x"});
  Do({"ZADD", "{gone}:timeout", "1", "x"});
  EXPECT_THAT(Lines({"--all"}), IsEmpty());
  EXPECT_EQ(Redlatch({"inspect", "gone"}).code, 1);
  EXPECT_EQ(Redlatch({"inspect", "user"}).code, 1);
  EXPECT_EQ(Redlatch({"inspect", "mixed"}).code, 1);
}

TEST_F(RedlatchRedissonTest, FreeLocksAreListedOnlyWithAll) {
  Do({"SET", "redisson_lock_token:{fenced}", "7"});
  EXPECT_THAT(Lines(), IsEmpty());
  EXPECT_THAT(Lines({"--all"}), ElementsAre(ContainsRegex("^fenced +Redisson fenced lock +free")));
  EXPECT_THAT(Text("fenced"), ContainsRegex("last token +7\n"));
}

TEST_F(RedlatchRedissonTest, InspectShowsHolderAndCount) {
  Lock("ledger", kJava, "2");
  EXPECT_THAT(Text("ledger"),
              ContainsRegex(absl::StrCat("^Lock \"ledger\": Redisson lock, held\n  held by +",
                                         kJava, ", locked 2 times, lease [23][0-9.]+s\n")));
  EXPECT_EQ(Of("ledger",
               "(r['kind'], r['holders'][0]['hold'], r['holders'][0]['count'], "
               "0 < r['holders'][0]['remaining_ms'] <= 30000)"),
            absl::StrCat("('redisson_lock', '", kJava, "', 2, True)"));
}

TEST_F(RedlatchRedissonTest, InspectDescribesClientsOfRedlatch) {
  const Client client = NewClient({.program = "billing"});
  const auto lease = Must(SimpleLock(client, "simple").Acquire());
  const std::string id = server_->Text({"GET", "simple"}).substr(0, 32);
  Lock("ledger", id + ":5", "1");
  EXPECT_THAT(Text("ledger"), ContainsRegex("held by +" + Me("billing") + ", lease "));
  EXPECT_THAT(Lines({"ledger"}), ElementsAre(ContainsRegex(Me("billing") + "$")));
}

TEST_F(RedlatchRedissonTest, InspectShowsQueueInOrder) {
  Lock("fair", kJava, "1");
  const std::string first = "0" + std::string(kOther).substr(1), last = kOther;
  Queue("fair", last, absl::Seconds(310));
  Queue("fair", first, absl::Seconds(290));  // an older client's clock differs
  EXPECT_THAT(Text("fair"), ContainsRegex("waiting +1\\. " + last + ", keeps its place for 5m.*\n" +
                                          " +2\\. " + first + ", keeps its place for 4m"));
  EXPECT_EQ(Of("fair",
               "([w['hold'][0] for w in r['waiters']], r['waiting'], "
               "280000 < r['waiters'][1]['keeps_place_ms'] < 290000)"),
            "(['b', '0'], 2, True)");
}

TEST_F(RedlatchRedissonTest, InspectShowsToken) {
  FencedLock();
  EXPECT_THAT(Text("fenced"), ContainsRegex("^Lock \"fenced\": Redisson fenced lock, held\n"
                                            "  held by +[^\n]*\n  last token +1\n"));
  EXPECT_EQ(Of("fenced", "r['token']"), "1");
}

TEST_F(RedlatchRedissonTest, InspectShowsReadersWithTheirLongestRead) {
  ReadLock("data");
  EXPECT_THAT(Text("data"),
              ContainsRegex(absl::StrCat("^Lock \"data\": Redisson read-write lock, read by 1\n"
                                         "  held by +",
                                         kJava, ", locked 2 times, reading, lease 1[0-9.]+s\n")));
  EXPECT_EQ(Of("data", "(r['holders'][0]['mode'], r['holders'][0]['count'])"), "('read', 2)");
}

TEST_F(RedlatchRedissonTest, InspectShowsWriterBeforeItsRead) {
  WriteLock("data");
  Do({"HSET", "data", kJava, "1"});
  Do({"SET", absl::StrCat("{data}:", kJava, ":rwlock_timeout:1"), "1", "PX", "20000"});
  EXPECT_EQ(Of("data", "[(h['mode'], h['hold']) for h in r['holders']]"),
            absl::StrCat("[('write', '", kJava, "'), ('read', '", kJava, "')]"));
  EXPECT_EQ(Of("data", "r['holding']"), "1");
  EXPECT_THAT(Text("data"), HasSubstr("Redisson read-write lock, written\n"));
}

TEST_F(RedlatchRedissonTest, InspectShowsPermitsInHex) {
  ExpirableSemaphore("pool");
  EXPECT_THAT(Text("pool"),
              ContainsRegex("^[A-Z]\\w+ \"pool\": Redisson expirable semaphore, 3 free\n"
                            "  held by +0001feff2031323334353637383961[0-9a-f]+, lease [0-9.m]+s\n"
                            " +30313233343536373839616263646566, without end\n"));
  EXPECT_EQ(Of("pool", "(r['kind'], r['left'], r['holding'], r['holders'][1]['remaining_ms'])"),
            "('redisson_permit_expirable_semaphore', 3, 2, None)");
}

TEST_F(RedlatchRedissonTest, KeysOfRedlatchShowSemaphoreAndLatch) {
  Do({"SET", "pool", "3"});
  Do({"ZADD", "redlatch:2:{pool}:redisson.permits",
      absl::StrCat(absl::ToUnixMillis(absl::Now()) + 60'000), "0123456789abcdef"});
  Do({"SET", "import", "5"});
  Do({"SET", "redlatch:2:{import}:redisson.counted." + std::string(32, 'a') + ".1", "1"});
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^import +Redisson latch +5 to go +- +0$"),
                                   ContainsRegex("^pool +Redisson semaphore +3 free +.* +0 +"
                                                 "30313233343536373839616263646566$")));
  EXPECT_EQ(Of("pool", "(r['kind'], r['left'], r['holding'])"), "('redisson_semaphore', 3, 1)");
}

TEST_F(RedlatchRedissonTest, SubscribersAreWaiters) {
  Lock("ledger", kJava, "1");
  Do({"SET", "pool", "0"});
  Do({"SET", "import", "5"});
  EXPECT_THAT(Text("import"), HasSubstr("Redisson semaphore or latch, 5 left\n"));
  const base::Instant deadline = base::Now() + absl::Seconds(30);
  const auto listen = [&](const std::string& channel) {
    auto listener = redis::PlainConnection::Open(*redis::ParseUrl(server_->url()), deadline);
    EXPECT_TRUE(listener->Call(redis::Command{"SUBSCRIBE", channel}, deadline).ok());
    return listener;
  };
  const auto lock = listen("redisson_lock__channel:{ledger}");
  const auto permits = listen("redisson_sc:{pool}");
  const auto latch = listen("redisson_countdownlatch__channel__{import}");
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^ledger +Redisson lock +held +[^ ]+ +1 ")));
  EXPECT_THAT(Text("ledger"), ContainsRegex("waiting +1, not listed"));
  EXPECT_THAT(Text("pool"), ContainsRegex("Redisson semaphore, 0 free\n  waiting +1"));
  EXPECT_THAT(Text("import"), ContainsRegex("Redisson latch, 5 to go\n  waiting +1"));
}

TEST_F(RedlatchRedissonTest, BreakRefusesAndSaysHow) {
  Lock("ledger", kJava, "1");
  ExpirableSemaphore("pool");
  for (const char* const name : {"ledger", "pool"}) {
    const Outcome outcome = Redlatch({"break", "--yes", name});
    EXPECT_EQ(outcome.code, 123);
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr("cannot be broken"), HasSubstr("ForceRelease()"),
                                      HasSubstr("[https")));
    EXPECT_EQ(absl::StrContains(outcome.errors, "forceUnlock()"), name == Words{"ledger"}[0]);
    EXPECT_EQ(server_->Integer({"EXISTS", name}), 1);
  }
  Do({"SET", "price", "12"});
  EXPECT_THAT(Redlatch({"break", "--yes", "price"}),
              Fails(123, HasSubstr("may be another program's data")));
  EXPECT_EQ(server_->Integer({"EXISTS", "price"}), 1);
}

TEST_F(RedlatchRedissonTest, RunNamesWhatItFound) {
  Lock("ledger", kJava, "1");
  const Outcome outcome = Redlatch({"run", "ledger", "--", "true"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("in use for a Redisson lock, and not for a plain lock"));
}

TEST_F(RedlatchRedissonTest, ApiNamesWhatItFound) {
  const Client client = NewClient({});
  Lock("ledger", kJava, "1");
  Do({"SET", "pool", "3"});
  EXPECT_THAT(SimpleLock(client, "ledger").TryAcquire().status().message(),
              HasSubstr("WRONGTYPE ledger is in use as a Redisson lock, not as a simple lock; use "
                        "another name, or redlatch::redisson::Lock"));
  EXPECT_THAT(
      ReentrantLock(client, "pool").TryAcquire().status().message(),
      HasSubstr("pool is in use as a Redisson semaphore or latch, not as a reentrant lock"));
  EXPECT_THAT(SimpleLock(client, "pool").TryAcquire().status().message(),
              HasSubstr("pool is in use as a Redisson semaphore or latch, not as a simple lock"));
  EXPECT_FALSE(SimpleLock(client, "pool").ForceRelease().ok());
  EXPECT_EQ(server_->Text({"GET", "pool"}), "3");
}

TEST_F(RedlatchRedissonTest, ViewerWithFewerPermissionsSeesLess) {
  Lock("ledger", kJava, "1");
  WriteLock("data");
  Lock("fair", kJava, "1");
  Queue("fair", kOther, absl::Seconds(300));
  Do({"ACL",    "SETUSER", "old",    "on",     ">secret", "resetchannels", "%R~*",   "+ping",
      "+hello", "+time",   "+scan",  "+type",  "+exists", "+pttl",         "+get",   "+getrange",
      "+mget",  "+hget",   "+hmget", "+hscan", "+zcard",  "+zcount",       "+zrange"});
  const std::string viewer = UrlOf("old:secret");
  const auto list = [&] { return Lines({"--names", "--server", viewer}); };
  EXPECT_THAT(list(), IsEmpty());
  EXPECT_EQ(Redlatch({"inspect", "ledger", "--server", viewer}).code, 1);
  Do({"ACL", "SETUSER", "old", "+eval_ro", "+hlen"});
  // It cannot find a lock that only its holder shows.
  EXPECT_THAT(list(), ElementsAre("data"));
  Do({"ACL", "SETUSER", "old", "+hrandfield"});
  EXPECT_THAT(list(), ElementsAre("data", "fair", "ledger"));
  const Outcome fair = Redlatch({"inspect", "fair", "--server", viewer});
  EXPECT_THAT(fair.output, ContainsRegex("waiting +1, not listed")) << fair.errors;
  Do({"ACL", "SETUSER", "old", "+lrange", "+pubsub|numsub"});
  EXPECT_THAT(Redlatch({"inspect", "fair", "--server", viewer}).output, HasSubstr(kOther));
}

}  // namespace
}  // namespace redlatch
