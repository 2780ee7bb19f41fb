// Permits, and which waiter gets them next.

#include <sstream>

#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

class SemaphoreScripts : public SemaphoreScriptsFixture {};

TEST_F(SemaphoreScripts, CapacityLimitsGrants) {
  EXPECT_EQ(Acquire(One('a')), Granted());
  EXPECT_EQ(Acquire(For(20000, One('b'))), Granted(20000));
  const redis::Reply busy = Ask(Impatient(One('c')));
  EXPECT_EQ(First(busy), "busy");
  EXPECT_GT(busy.elements[1].integer, 19000);
  EXPECT_LE(busy.elements[1].integer, 20000);
  EXPECT_THAT(Waiting(), IsEmpty());
  for (const char client : {'d', 'c'}) {
    const redis::Reply queued = Ask(One(client));
    EXPECT_EQ(First(queued), "queued");
    EXPECT_EQ(queued.elements[2].integer, client == 'd' ? 0 : 1);
    EXPECT_GT(queued.elements[1].integer, 19000);
  }
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('d'), GrantId('c')));
  EXPECT_THAT(Holding(), UnorderedElementsAre(GrantId('a'), GrantId('b')));
}

TEST_F(SemaphoreScripts, HashOutlivesGrantsByADay) {
  Ask(One('a'));
  EXPECT_EQ(Field("kind"), "semaphore/2");
  EXPECT_EQ(Field("capacity"), "2");
  EXPECT_EQ(Field("set_by"), "constructor");
  EXPECT_EQ(server_->Integer({"HLEN", name_}), 4);
  EXPECT_GT(Pttl(name_), 86'400'000 + 29'000);
  EXPECT_LE(Pttl(name_), 25 * 3'600'000);
  EXPECT_GT(Pttl(Permits()), 29'000);
  EXPECT_LE(Pttl(Permits()), 30'001);
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 1);
}

TEST_F(SemaphoreScripts, NextGrantProlongsHash) {
  Inbox c(*server_, Channel('c'));
  Ask(One('a'));
  // Makes that call to a semaphore that was used long ago. Returns how long it lives afterwards.
  const auto lives_after = [this](const std::function<std::string()>& call, const char* reply) {
    const int64_t until = std::stoll(Field("until")) - 700'000'000;
    server_->Command({"HSET", name_, "until", absl::StrCat(until)});
    server_->Command({"PEXPIREAT", name_, absl::StrCat(until / 1000)});
    EXPECT_LT(Pttl(name_), 86'400'000);
    EXPECT_EQ(call(), reply);
    return Pttl(name_);
  };
  const int64_t whole = 86'400'000 + 29'000;
  EXPECT_GT(lives_after([&] { return Outcome(One('b')); }, "granted"), whole);
  EXPECT_GT(lives_after([&] { return Outcome(One('b')); }, "granted"), whole) << "a repeat";
  EXPECT_GT(lives_after([&] { return Renew(One('a')); }, kHeld), whole);
  Ask(One('c'));
  EXPECT_GT(lives_after([&] { return Release(One('a')); }, kReleased), whole);
  EXPECT_EQ(c.Next(), GrantOf(One('c')));
  EXPECT_GT(lives_after([&] { return SetCapacity(2); }, kSet), 86'400'000);
  EXPECT_EQ(Release(One('b')), kReleased);
}

TEST_F(SemaphoreScripts, LongerTtlIsNotShortened) {
  const int day = 86'400'000;
  Ask(For(2 * day, One('a')));
  const int64_t key = Pttl(name_), permits = Pttl(Permits());
  EXPECT_GT(key, 3LL * day);
  Ask(For(10, One('b')));
  Renew(For(10, One('a')));
  SetCapacity(3);
  Ask(For(10, Many(2, 'c')));
  Ask(For(10, One('b')));
  EXPECT_GT(Pttl(name_), key - 10'000);
  EXPECT_GT(Pttl(Permits()), permits - 10'000);
}

TEST_F(SemaphoreScripts, GrantMayHaveManyPermits) {
  capacity_ = 6;
  EXPECT_EQ(Acquire(Many(3, 'a')), Granted());
  EXPECT_EQ(Acquire(Again(Many(3, 'a'))), Granted());
  EXPECT_EQ(Field(GrantId('a')), "3");
  EXPECT_EQ(Field("extra"), "2");
  EXPECT_EQ(Outcome(Impatient(Many(4, 'b'))), "busy");
  EXPECT_EQ(Acquire(Impatient(Many(2, 'c'))), Granted());
  EXPECT_EQ(Acquire(Impatient(One('d'))), Granted());
  EXPECT_EQ(Outcome(Impatient(One('e'))), "busy");
  EXPECT_EQ(Used(), 6);
  EXPECT_EQ(Release(One('d')), kReleased) << "past the weight of another";
  EXPECT_EQ(Used(), 5);
  EXPECT_EQ(Release(Many(3, 'a')), kReleased);
  EXPECT_EQ(Release(Many(3, 'a')), kNotHeld);
  EXPECT_EQ(Used(), 2);
  EXPECT_EQ(Acquire(Impatient(Many(4, 'b'))), Granted());
}

// Expiry.

TEST_F(SemaphoreScripts, WeightsAreVoidAfterAllGrantsExpire) {
  capacity_ = 4;
  struct Way {
    std::function<std::string()> call;
    std::string reply;
    int used = 0;
  };
  const std::vector<Way> ways = {{[&] { return Acquire(One('c')); }, Granted(), 1},
                                 {[&] { return Acquire(Many(4, 'c')); }, Granted(), 4},
                                 {[&] { return Acquire(Many(2, 'a')); }, Granted(), 2},
                                 {[&] { return Release(Many(2, 'a')); }, kNotHeld},
                                 {[&] { return Release(Many(2, 'a'), 0, 0, 5000); }, kNotHeld},
                                 {[&] { return Cancel(Many(2, 'a')); }, kUnknown},
                                 {[&] { return SetCapacity(4); }, kSet},
                                 {[&] { return ForceRelease(); }, kFree}};
  for (const Way& way : ways) {
    SCOPED_TRACE(&way - ways.data());
    server_->Command({"FLUSHALL"});
    Ask(For(100, Many(2, 'a')));
    Ask(For(100, Many(2, 'b')));
    AwaitExpiry(Permits());
    EXPECT_EQ(Field("extra"), "2");
    EXPECT_EQ(Used(), 0);
    EXPECT_EQ(way.call(), way.reply);
    EXPECT_EQ(Used(), way.used);
    ExpectConsistent();
  }
}

// Repeated and late requests.

class SemaphoreQueue : public SemaphoreScriptsFixture {};

TEST_F(SemaphoreScripts, ForgottenSemaphoreIsStoredAgain) {
  Inbox c(*server_, Channel('c'));
  Ask(One('a'));
  Ask(One('b'));
  Ask(One('c'));
  server_->Command({"DEL", name_});
  EXPECT_EQ(Renew(One('a')), kHeld);
  EXPECT_EQ(Acquire(Again(One('a'))), Granted());
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0) << "only half of it is known";
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(Acquire(Again(One('c'))), Granted());
  EXPECT_EQ(Field("capacity"), "2");
  EXPECT_EQ(Outcome(Impatient(One('d'))), "busy");
}

TEST_F(SemaphoreQueue, OverdueWaiterStaysIfNextDoesNotFit) {
  capacity_ = 3;
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Many(2, 'a'));
  Ask(One('a', 2));
  Ask(One('b'));
  Ask(Many(2, 'c'));
  MakeOverdue(GrantId('b'));
  EXPECT_EQ(Release(One('a', 2)), kReleased);
  EXPECT_EQ(b.Next(), "");
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b'), GrantId('c')));
  EXPECT_EQ(Outcome(Again(One('b'))), "granted");
}

TEST_F(SemaphoreQueue, TryComesAfterAllWaiters) {
  {
    Inbox b(*server_, Channel('b'));
    Ask(Many(2, 'a'));
    Ask(Many(2, 'b'));
    Expire(GrantId('a'));
    EXPECT_EQ(Outcome(Impatient(One('c'))), "busy");
    EXPECT_EQ(b.Next(), GrantOf(Many(2, 'b')));
    Ask(One('b', 2));
    MakeOverdue(GrantId('b', 2));
    Expire(GrantId('b'));
    EXPECT_EQ(Outcome(Impatient(One('c'))), "granted") << "two are free";
    EXPECT_EQ(b.Next(), GrantOf(One('b', 2)));
    EXPECT_EQ(Used(), 2);
    Ask(Many(2, 'd'));
    Release(One('c'));
  }
  EXPECT_EQ(Outcome(Impatient(One('e'))), "granted") << "d has no subscriber";
  EXPECT_THAT(Waiting(), IsEmpty());
}

// The first waiter knows nothing of a grant that was live when it asked, and may never ask again.
TEST_F(SemaphoreQueue, CrashedHoldersPermitsComeBack) {
  for (const int weight : {1, 2}) {
    for (const int others : {1, 2}) {  // that another client has
      server_->Command({"FLUSHALL"});
      Inbox b(*server_, Channel('b'));
      capacity_ = 1 + weight + others;
      Ask(One('a'));
      Ask(Many(weight, 'x'));
      Ask(Many(others, 'y'));
      for (int i = 1; i <= 4; ++i) Ask(One('b', i));
      Expire(GrantId('x'));
      EXPECT_EQ(Release(One('a')), kReleased);
      for (int i = 1; i <= 1 + weight; ++i) EXPECT_EQ(b.Next(), GrantOf(One('b', i)));
      EXPECT_EQ(b.Next(), "");
      EXPECT_EQ(Used(), capacity_);
      ExpectConsistent();
    }
  }
}

// As many are free as one release makes, if an expired weight were counted.
TEST_F(SemaphoreQueue, ExpiredWeightFreesAllItsPermits) {
  Inbox b(*server_, Channel('b'));
  SetCapacity(5);
  Ask(One('a', 1));
  Ask(One('a', 2));
  Ask(Many(3, 'x'));
  for (int i = 1; i <= 4; ++i) Ask(One('b', i));
  SetCapacity(4);
  Expire(GrantId('x'));
  EXPECT_EQ(Release(One('a', 1)), kReleased);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(b.Next(), GrantOf(One('b', i)));
  EXPECT_EQ(b.Next(), "");
}

TEST_F(SemaphoreQueue, LateReleaseOfExpiredGrantAdmitsNone) {
  Inbox b(*server_, Channel('b'));
  Ask(One('a'));
  Ask(One('x'));
  for (int i = 1; i <= 4; ++i) Ask(One('b', i));
  Expire(GrantId('x'));
  EXPECT_EQ(Release(One('x')), kReleased);
  EXPECT_EQ(b.Next(), GrantOf(One('b', 1)));
  EXPECT_EQ(b.Next(), "");
  Expire(GrantId('a'));
  server_->Command({"ZADD", Permits(), "99999999999999999", GrantId('y')});  // and one more
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(b.Next(), "");
  EXPECT_EQ(Used(), 2);
  EXPECT_EQ(Release(One('y')), kReleased);
  EXPECT_EQ(b.Next(), GrantOf(One('b', 2)));
  Expire(GrantId('b', 1));
  EXPECT_EQ(Release(One('b', 1), 0, 0, 5000), kReleased) << "one that leaves a tombstone";
  EXPECT_EQ(b.Next(), GrantOf(One('b', 3)));
  EXPECT_EQ(b.Next(), "");
}

// Each costs about a microsecond of the server's only thread.
TEST_F(SemaphoreQueue, CommonCasesCostFewCommands) {
  const auto commands_of = [this](const Request& request, bool release) {
    server_->Command({"CONFIG", "RESETSTAT"});
    const std::string outcome = release ? Release(request) : First(Ask(request));
    int commands = 0;
    std::istringstream stats(server_->Text({"INFO", "commandstats"}));
    for (std::string line; std::getline(stats, line);) {
      if (!line.starts_with("cmdstat_") || line.starts_with("cmdstat_eval")) continue;
      if (line.starts_with("cmdstat_config")) continue;
      commands += std::stoi(line.substr(line.find('=') + 1));
    }
    return absl::StrCat(outcome, " by ", commands);
  };
  Inbox b(*server_, Channel('b'));
  for (const int beside : {0, 1}) {  // a grant with many permits
    server_->Command({"FLUSHALL"});
    capacity_ = beside == 0 ? 2 : 4;
    Ask(One('a', 0));
    if (beside == 1) Ask(Many(2, 'm'));
    EXPECT_EQ(commands_of(One('a'), false), "granted by 6");
    EXPECT_EQ(commands_of(Impatient(One('d')), false), "busy by 6");
    EXPECT_EQ(commands_of(One('b', 1), false), "queued by 11");
    EXPECT_EQ(commands_of(One('b', 2), false), "queued by 11");
    EXPECT_EQ(commands_of(One('a'), true), absl::StrCat("[\"released\"] by ", 12 + beside));
    Cancel(One('b', 2));
    EXPECT_EQ(commands_of(One('b', 1), true), "[\"released\"] by 3");
  }
  EXPECT_EQ(commands_of(Many(2, 'm'), true), "[\"released\"] by 6");
  EXPECT_EQ(commands_of(Many(2, 'm', 2), false), "granted by 8");
  EXPECT_EQ(commands_of(Many(4, 'b', 3), false), "queued by 11");
}

}  // namespace
}  // namespace redlatch
