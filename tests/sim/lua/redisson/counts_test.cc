// Redisson's semaphores and latch, which are numbers.
#include "tests/sim/lua/redisson/fixture.h"

namespace redlatch {
namespace {

constexpr char kReleases[] = "redisson_sc:{orders:42}";

struct RedissonSemaphoreScripts : RedissonScripts {
  explicit RedissonSemaphoreScripts(LockKind kind = RedissonSemaphore())
      : RedissonScripts(std::move(kind)) {}
  std::string Change(const std::string& how, int64_t number = 0) {
    return Eval(lua::kRedissonSemaphoreSetPermits, {}, {how, absl::StrCat(number)}).DebugString();
  }
  std::string Taken() const { return Auxiliary(kind_.own_keys.back()); }
  int64_t CountTaken() { return server_->Integer({"ZCARD", Taken()}); }
  void PutPermit(const std::string& ends) { Put({"ZADD", Taken(), ends, "0123456789abcdef"}); }
};

TEST_F(RedissonSemaphoreScripts, PermitsAreTakenAndGivenBack) {
  Inbox java(*server_, kReleases);
  EXPECT_EQ(Change("try", 1), "[1, \"set\"]");
  EXPECT_EQ(java.Next(), "1") << "the free permits, as Redisson tells them";
  EXPECT_EQ(Acquire(Of('a')), Granted());
  EXPECT_EQ(Get(name_), "0");
  server_->Pass(1000);
  EXPECT_EQ(Acquire(Of('b')), Queued(29000));
  EXPECT_EQ(Acquire(Impatient(Of('b'))), Busy(29000));
  EXPECT_EQ(Acquire(Manual(Again(Of('a')))), Granted(29000));
  EXPECT_EQ(Acquire(Again(Of('a'))), Granted());
  EXPECT_EQ(Renew(For(60000, Of('a'))), kHeld);
  EXPECT_EQ(Renew(For(100, Of('a'))), kHeld);
  EXPECT_EQ(Acquire(Of('b')), Queued(60000)) << "a renewal never shortens";
  EXPECT_EQ(Renew(Of('b')), kNotHeld);
  EXPECT_EQ(Release(Of('b'), 0, 0, 5000), kNotHeld);
  EXPECT_EQ(Acquire(Of('b')), kGone);
  EXPECT_EQ(Release(Of('a'), 0, 0, 5000), kReleased);
  EXPECT_EQ(Release(Of('a'), 0, 0, 5000), kReleased) << "a repeat";
  EXPECT_EQ(Get(name_), "1");
  EXPECT_EQ(java.Next(), "1");
  EXPECT_EQ(Acquire(Of('a', 2)), Queued(5));
  EXPECT_EQ(Acquire(Of('c')), Granted());
  EXPECT_EQ(Cancel(Of('d')), kUnknown);
  EXPECT_EQ(Cancel(Of('c'), 5000), kPassedOn);
  EXPECT_EQ(Acquire(Of('c')), kGone);
  EXPECT_EQ(Get(name_), "1");
}

TEST_F(RedissonSemaphoreScripts, PermitsOfDeadProgramsComeBack) {
  Change("try", 0);
  PutPermit("1");
  EXPECT_EQ(Change("free"), "[1, \"kept\"]") << "an expired permit counts as free";
  EXPECT_EQ(Acquire(Of('a')), Granted());
  EXPECT_EQ(CountTaken(), 1);
  EXPECT_EQ(Pttl(Taken()), -1) << "as long as the semaphore";
  server_->Pass(30001);
  EXPECT_EQ(Renew(For(100, Of('a'))), kHeld) << "while its permit is not given away";
  server_->Do({"PEXPIRE", name_, "3600000"});
  server_->Pass(101);
  EXPECT_EQ(Acquire(Of('b')), Granted());
  EXPECT_EQ(Renew(Of('a')), kNotHeld);
  EXPECT_EQ(Pttl(Taken()), Pttl(name_));
  server_->Do({"DEL", name_});
  EXPECT_EQ(Release(Of('b')), kReleased);
  EXPECT_FALSE(Exists(name_)) << "permits of a deleted semaphore do not make another";
  EXPECT_EQ(Change("free"), "[0, \"kept\"]");
}

TEST_F(RedissonSemaphoreScripts, PermitsChangeAsInJava) {
  Inbox java(*server_, kReleases);
  EXPECT_EQ(Change("set", 3), "[3, \"set\"]");
  EXPECT_EQ(Change("try", 5), "[3, \"kept\"]");
  Ask(Of('a'));
  EXPECT_EQ(Change("set", 3), "[2, \"kept\"]") << "with the one that is taken";
  EXPECT_EQ(Change("set", 5), "[4, \"set\"]");
  EXPECT_EQ(Change("add", -5), "[-1, \"set\"]");
  EXPECT_EQ(Acquire(Impatient(Of('b'))), Busy(30000));
  EXPECT_EQ(Release(Of('a')), kReleased);
  for (const std::string told : {"3", "4", "-1", ""}) EXPECT_EQ(java.Next(), told);
  EXPECT_THAT(Change("add", int64_t{1} << 32),
              HasSubstr("with 4294967296 free permits is not possible"));
  EXPECT_EQ(Get(name_), "0");
}

TEST_F(RedissonSemaphoreScripts, ScriptsLookAtFewOfVeryMany) {
  Put({"SET", name_, "0"});
  for (int i = 0; i < 1000; ++i) Put({"ZADD", Taken(), "1", absl::StrCat(i)});
  const uint64_t before = server_->calls_in_scripts();
  EXPECT_EQ(Acquire(Of('a')), Granted());
  EXPECT_EQ(Get(name_), "63");
  EXPECT_EQ(ForceRelease(), kReleased);
  EXPECT_EQ(Get(name_), "1000");
  EXPECT_EQ(ForceRelease(), kFree);
  EXPECT_LT(server_->calls_in_scripts() - before, 50);
}

struct RedissonPermitScripts : RedissonSemaphoreScripts {
  RedissonPermitScripts() : RedissonSemaphoreScripts(RedissonSemaphore(4, "timeout")) {}
};

// Java's permits may have no lease.
TEST_F(RedissonPermitScripts, PermitWithoutLeaseIsWaitedForAndShown) {
  Put({"SET", name_, "0"});
  PutPermit("922337203685477");
  EXPECT_EQ(Acquire(Of('a')), "[\"queued\", 0, 1, 0]");
  EXPECT_EQ(Acquire(Impatient(Of('a'))), "[\"busy\", 0]");
  EXPECT_EQ(Inspect(),
            "[\"redisson_permit_expirable_semaphore\", \"0\", "
            "[[\"30313233343536373839616263646566\", \"\", -1, 1]], 0, [], 1, 1, 1]");
}

TEST_F(RedissonPermitScripts, RepeatTakesOnlyWhatItHasLost) {
  Put({"SET", name_, "9"});
  EXPECT_EQ(Acquire(Of('a')), Granted());
  // A program whose clock is ahead gives one back.
  server_->Do({"ZREM", Taken(), Members(Taken()).front()});
  Put({"INCRBY", name_, "1"});
  EXPECT_EQ(Renew(Of('a')), kNotHeld) << "all or none";
  EXPECT_EQ(Acquire(Again(Of('a'))), Granted());
  EXPECT_EQ(Get(name_), "5");
  EXPECT_EQ(CountTaken(), 4);
  EXPECT_EQ(Pttl(Taken()), -1);
}

struct RedissonLatchScripts : RedissonScripts {
  RedissonLatchScripts() : RedissonScripts(RedissonLatch()) {}
  std::string Call(const std::string& id, const std::string& how, int n = 0, int ms = 300'000) {
    return Eval(lua::kRedissonLatchCount, {Auxiliary("redisson.counted." + id)},
                {how, absl::StrCat(n), absl::StrCat(ms)})
        .DebugString();
  }
};

TEST_F(RedissonLatchScripts, OpensForAllAtZeroAndMayBeSetAgain) {
  Inbox java(*server_, "redisson_countdownlatch__channel__{orders:42}");
  EXPECT_EQ(Acquire(Of('a')), Granted()) << "it was never set";
  EXPECT_EQ(Call("1", "set", 3), "[3, \"set\"]");
  EXPECT_EQ(java.Next(), "1") << "Redisson's message of a new count";
  EXPECT_EQ(Call("1", "set", 3), "[3, \"set\"]") << "a repeat";
  EXPECT_EQ(Call("2", "set", 5), "[3, \"kept\"]");
  EXPECT_EQ(Acquire(Of('a')), "[\"queued\", 0, 1, 0]");
  EXPECT_EQ(Acquire(Impatient(Of('a'))), "[\"busy\", 0]");
  EXPECT_EQ(Cancel(Of('a')), kUnknown);
  EXPECT_EQ(Call("3", "down", 1), "[2]");
  EXPECT_EQ(Call("3", "down", 1), "[2]") << "a repeat";
  EXPECT_EQ(Pttl(Auxiliary("redisson.counted.3")), 300'000);
  EXPECT_EQ(Call("4", "down", 0, 1), "[2]");
  EXPECT_EQ(Call("4", "count"), "[2]");
  EXPECT_EQ(java.Next(), "");
  EXPECT_EQ(Call("5", "down", 7, 1), "[0]");
  EXPECT_EQ(Pttl(Auxiliary("redisson.counted.5")), 60'000) << "a repeat may be on its way";
  EXPECT_EQ(java.Next(), "0") << "Redisson's message of an open latch";
  EXPECT_FALSE(Exists(name_));
  EXPECT_EQ(Call("6", "down", 1), "[0]");
  EXPECT_EQ(Call("7", "set", 1), "[1, \"set\"]");
}

}  // namespace
}  // namespace redlatch
