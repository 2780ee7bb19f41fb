// Client::Stats(): each event changes the right numbers by the right amount, and no others.
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

struct Stats : Conformance {
  LockStats Of() { return StatsOf(client_, Called()); }

  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const Client client_ = NewClient("command_timeout=200ms", {.observer = recorder_});
  const Client other_ = NewClient();
  const std::unique_ptr<RedisLockBase> lock_ = NewLock(client_);
};

TEST_P(Stats, UnusedClientHasNoLocks) {
  // A quorum's client may still be connecting to some servers.
  EXPECT_TRUE(Await([&] { return client_.Stats().connects == server().size(); }));
  const ClientStats stats = client_.Stats();
  EXPECT_THAT(stats.locks, IsEmpty());
  EXPECT_THAT(stats.all, Counts({}));
  EXPECT_EQ(stats.server, client_.server());
  EXPECT_EQ(stats.id.size(), 32);
  EXPECT_NE(stats.id, other_.Stats().id);
  EXPECT_EQ(stats.breaks + stats.reconnects, 0);
  EXPECT_EQ(stats.name, "");
  EXPECT_EQ(NewClient("name=billing").Stats().name, "billing");
}

TEST_P(Stats, HoldIsCountedAtItsStartAndEnd) {
  auto lease = Must(lock_->Acquire());
  EXPECT_THAT(Of(), Counts({.acquired = 1, .held = 1}));
  EXPECT_OK(lease.Release());
  EXPECT_THAT(Of(), Counts({.acquired = 1, .released = 1}));
  lock_->lock();
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 1, .held = 1}));
  lock_->unlock();
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 2}));
  EXPECT_OK(lease.Release());  // a repeated Release() is not counted
  EXPECT_THAT(Of(), Counts({.acquired = 2, .released = 2}));
}

TEST_P(Stats, UnreachableServerCountsAsFailure) {
  UseOwnServer();
  const Client client = NewClient("command_timeout=200ms&connect_timeout=200ms");
  const auto lock = NewLock(client, kName, LeaseOf(kLease / 5));
  EXPECT_OK(Try(*lock));
  const uint64_t before = StatsOf(client, Called()).failed;  // a slow machine may have caused some
  server().Stop();
  EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable);
  EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::Milliseconds(10)})), kUnreachable);
  server().Continue();
  const LockStats stats = StatsOf(client, Called());
  EXPECT_EQ(stats.failed - before, 2);
  EXPECT_EQ(stats.busy, 0);
  EXPECT_GE(client.Stats().late, 1);
}

TEST_P(Stats, ReconnectionsAreCounted) {
  auto lease = Must(lock_->Acquire());
  for (const char* const type : {"normal", "pubsub"}) {
    server().Command({"CLIENT", "KILL", "TYPE", type, "SKIPME", "yes"});
  }
  ASSERT_TRUE(Await([&] { return client_.Ping().ok() && recorder_->Count("reconnected") > 0; }));
  const ClientStats stats = client_.Stats();
  EXPECT_GE(stats.breaks, 1);
  EXPECT_GE(stats.connects, 2);
  EXPECT_GE(stats.reconnects, 1);
  EXPECT_TRUE(Await([&] { return lease.Release().ok(); }));
}

TEST_P(Stats, MayBeReadConcurrently) {
  const auto beside = NewLock(client_, "beside");
  std::atomic<bool> done{false};
  Crew reader;
  reader.Start([&] {
    uint64_t before = 0;
    while (!done) {
      const ClientStats stats = client_.Stats();
      EXPECT_GE(stats.all.acquired, before) << "it only grows";
      EXPECT_EQ(stats.all.acquired, stats.all.released + stats.all.releases_failed +
                                        stats.all.lost + stats.all.held + stats.all.releasing);
      before = stats.all.acquired;
    }
  });
  Crew crew;
  crew.Start(4, [&](int i) {
    for (int round = 0; round < support::Scaled(100); ++round) {
      (i % 2 == 0 ? lock_ : beside)->lock();
      (i % 2 == 0 ? lock_ : beside)->unlock();
      EXPECT_OK(Try(client_, absl::StrCat("passing:", i)));
    }
  });
  crew.Join();
  done = true;
  reader.Join();
  const ClientStats stats = client_.Stats();
  EXPECT_EQ(stats.all.acquired, 8 * support::Scaled(100));
  EXPECT_EQ(stats.all.held + stats.all.waiting, 0);
}

TEST_P(Stats, AreEmptyInForkedChild) {
  lock_->lock();
  const int code = support::CodeOfFork([&] {
    const ClientStats stats = client_.Stats();
    EXPECT_EQ(stats.server, client_.server());
    EXPECT_THAT(stats.locks, IsEmpty());
    EXPECT_EQ(stats.all.acquired + stats.connects, 0);
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  lock_->unlock();
  EXPECT_THAT(Of(), Counts({.acquired = 1, .released = 1}));
}

INSTANTIATE_CONFORMANCE(Stats, OverTcp(LockCases()));

using StatsNames = Conformance;

TEST_P(StatsNames, NamesBeyondLimitAreCountedTogether) {
  const Client client = NewClient({}, {.stats_names = 2});
  for (const char* name : {"a", "b", "c", "d", "a", "c"}) EXPECT_OK(Try(client, name));
  const auto held = Must(NewLock(client, "e")->Acquire());
  EXPECT_THAT(NamesOf(client), ElementsAre(kOtherNames, Called("a"), Called("b")));
  EXPECT_EQ(StatsOf(client, Called("a")).acquired, 2);
  EXPECT_EQ(StatsOf(client, Called("b")).acquired, 1);
  EXPECT_THAT(StatsOf(client, kOtherNames), Counts({.acquired = 4, .released = 3, .held = 1}));
  EXPECT_THAT(client.Stats().all, Counts({.acquired = 7, .released = 6, .held = 1}));
  EXPECT_EQ(client.Stats().all.name, "");
}

TEST_P(StatsNames, LockNamedLikeOthersIsCountedAmongThem) {
  if (Called(kOtherNames) != kOtherNames) GTEST_SKIP() << "none of several names is called so";
  const Client client = NewClient({}, {.stats_names = 1});
  for (const char* name : {kOtherNames, "a", "b"}) EXPECT_OK(Try(client, name));
  EXPECT_THAT(NamesOf(client), ElementsAre(kOtherNames, Called("a")));
  EXPECT_EQ(StatsOf(client, kOtherNames).acquired, 2);
}

TEST_P(StatsNames, LabelReplacesName) {
  const auto before_the_colon = [](std::string_view name) {
    return std::string(name.substr(0, name.find(':')));
  };
  const Client client = NewClient({}, {.stats_names = 2, .stats_label = before_the_colon});
  for (const char* name : {"orders:1", "orders:2", ":", "orders:3", "x"}) {
    EXPECT_OK(Try(client, name));
  }
  EXPECT_THAT(NamesOf(client), ElementsAre(kOtherNames, "orders", Called("x")));
  EXPECT_EQ(StatsOf(client, "orders").acquired, 3);
  EXPECT_EQ(StatsOf(client, kOtherNames).acquired, 1);
}

TEST_P(StatsNames, NothingIsCountedIfLimitIsZero) {
  for (const int none : {0, -1}) {
    const Client client = NewClient({}, {.stats_names = none});
    EXPECT_OK(Try(client));
    NewLock(client)->unlock();
    EXPECT_THAT(client.Stats().locks, IsEmpty());
    EXPECT_THAT(client.Stats().all, Counts({}));
    EXPECT_TRUE(Await([&] { return client.Stats().connects == server().size(); }));
  }
}

INSTANTIATE_CONFORMANCE(StatsNames, OverTcp(LockCases()));

struct LatchStats : LatchConformance {
  LockStats Of() { return StatsOf(client_, kName); }

  const Client client_ = NewClient();
  const std::unique_ptr<CountDownLatch> latch_ = NewLatch(client_, 1);
};

TEST_P(LatchStats, WaitCountsAsOpenedNotHeld) {
  constexpr int kThreads = 3;
  Crew crew;
  crew.Start(kThreads, [&](int) { EXPECT_OK(PatientWait(*latch_)); });
  ASSERT_TRUE(Await([&] { return Of().waiting == kThreads; }));
  EXPECT_EQ(CodeOf(WaitFor(*latch_, absl::Milliseconds(20))), kBusy);
  EXPECT_THAT(Of(), Counts({.busy = 1, .waiting = kThreads}));
  EXPECT_OK(latch_->CountDown());
  crew.Join();
  EXPECT_THAT(Of(), Counts({.opened = kThreads, .busy = 1}));
  EXPECT_OK(PatientWait(*latch_));  // the latch is open
  EXPECT_THAT(Of(), Counts({.opened = kThreads + 1, .busy = 1}));
}

INSTANTIATE_CONFORMANCE(LatchStats, OverTcp(CasesOf("latch")));

}  // namespace
}  // namespace redlatch::conformance
