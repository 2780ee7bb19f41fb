// Redisson's locks without Java: what they refuse, and what a client does if messages or answers do
// not come. tests/sim/lua/redisson has the tests of their scripts, and tests/redisson those with
// the real Redisson.

#include "absl/strings/strip.h"
#include "redlatch/redisson/count_down_latch.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/fenced_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/permit_expirable_semaphore.h"
#include "redlatch/redisson/read_write_lock.h"
#include "redlatch/redisson/semaphore.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(10);
constexpr char kJavaThread[] = "01234567-89ab-cdef-0123-456789abcdef:1";

struct RedissonLocks : ::testing::Test {
  Client Connect(const std::string& options = "") {
    return support::Connect(server_->url() + options);
  }
  int64_t Listeners(const std::string& channel) {
    return server_->Command({"PUBSUB", "NUMSUB", channel}).elements[1].integer;
  }
  // How many commands the server has executed since the last call, also in scripts; or how many of
  // one of them.
  int64_t CallsSince(const std::string& command = "") {
    int64_t calls = 0;
    for (absl::string_view line :
         absl::StrSplit(server_->Do({"INFO", "commandstats"}).text, "\r\n")) {
      if (!absl::ConsumePrefix(&line, "cmdstat_" + command)) continue;
      if (!command.empty() && !absl::StartsWith(line, ":")) continue;
      int64_t of_one = 0;
      line.remove_prefix(line.find('=') + 1);
      EXPECT_TRUE(absl::SimpleAtoi(line.substr(0, line.find(',')), &of_one));
      calls += of_one;
    }
    return calls - std::exchange(calls_[command], calls);
  }
  // A waiter asks, listens and asks again.
  bool AwaitAsked(int64_t times) {
    return Await([&] { return (times -= CallsSince("evalsha")) <= 0; });
  }
  void Queue(int waiters, const std::string& first, const std::string& until) {
    for (int i = 0; i < waiters; ++i) {
      const std::string waiter = absl::StrCat(first, i);
      server_->Do({"RPUSH", "redisson_lock_queue:{a}", waiter});
      server_->Do({"ZADD", "redisson_lock_timeout:{a}", until, waiter});
    }
  }
  int64_t Queued() { return server_->Integer({"LLEN", "redisson_lock_queue:{a}"}); }
  // Returns what a refusal says.
  static std::string Refusal(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  }

  std::map<std::string, int64_t> calls_;
  const std::unique_ptr<RedisServer> server_ =
      RedisServer::Start({.acl = {"user quiet on >pw ~* +@all resetchannels &redlatch:*"}});
  const Client client_ = Connect();
};

TEST_F(RedissonLocks, SemaphoresOfOneClientAreKeptApart) {
  redisson::Semaphore shared(client_, "slots");
  ASSERT_TRUE(*shared.TrySetPermits(2));
  const auto permit = Must(shared.TryAcquire());
  Semaphore own(client_, "slots", 2);
  EXPECT_THAT(Refusal(own.TryAcquire().status()), HasSubstr("redisson_semaphore"));
  EXPECT_EQ(*shared.AvailablePermits(), 1);
}

TEST_F(RedissonLocks, QuarantineAndQuorumAreRefused) {
  redisson::Lock quarantined(Connect("?quarantine=60s"), "a");
  EXPECT_THAT(Refusal(quarantined.TryAcquire().status()), HasSubstr("no `quarantine`"));
  redisson::Lock quorum(support::Connect("redlock:" + server_->url()), "a");
  EXPECT_THAT(Refusal(quorum.TryAcquire().status()), HasSubstr("RedLock"));
}

// One thread listens for all. When it is refused, the next one tries, and is refused too.
TEST_F(RedissonLocks, DeniedChannelEndsTheWaitOfEachThread) {
  support::TcpProxy proxy(support::TcpProxyOptions{.port = server_->port()});
  const Client client = support::Connect(absl::StrCat("redis://quiet:pw@127.0.0.1:", proxy.port()));
  const Client holder = Connect();
  redisson::Lock theirs(holder, "a"), mine(client, "a");
  auto lease = Must(theirs.Acquire());
  EXPECT_THAT(mine.Acquire({.wait = kTimeout}).status(),
              IsError(absl::StatusCode::kPermissionDenied, HasSubstr("&redisson_*")));
  proxy.Delay(Direction::kToServer, absl::Milliseconds(100));  // all wait before one is refused
  std::vector<std::future<absl::Status>> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.push_back(
        std::async(std::launch::async, [&] { return mine.Acquire({.wait = kTimeout}).status(); }));
  }
  const absl::Duration took = TimeOf([&] {
    for (auto& waiter : waiters) {
      EXPECT_EQ(waiter.get().code(), absl::StatusCode::kPermissionDenied);
    }
  });
  EXPECT_LT(took, kTimeout / 3);
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(mine.TryAcquire().ok()) << "it needs no message";
}

// One thread serves them all, and waits for no channel.
TEST_F(RedissonLocks, ManyAsynchronousWaitersListenSoon) {
  constexpr size_t kLocks = 200;
  support::TcpProxy proxy(support::TcpProxyOptions{.port = server_->port()});
  const Client holder = Connect(), client = support::Connect(proxy.url());
  std::vector<std::unique_ptr<redisson::Lock>> theirs, mine;
  for (size_t i = 0; i < kLocks; ++i) {
    theirs.push_back(std::make_unique<redisson::Lock>(holder, absl::StrCat(i)));
    theirs.back()->lock();
    mine.push_back(std::make_unique<redisson::Lock>(client, absl::StrCat(i)));
  }
  constexpr absl::Duration kDelay = absl::Milliseconds(100);
  proxy.Delay(Direction::kToServer, kDelay);
  std::atomic<size_t> acquired = 0;
  for (const auto& lock : mine) {
    lock->AcquireAsync({}, [&](const absl::StatusOr<Lease>& lease) {
      EXPECT_TRUE(lease.ok()) << lease.status();
      ++acquired;
    });
  }
  const auto channels = [&] {
    return server_->Command({"PUBSUB", "CHANNELS", "redisson_*"}).elements.size();
  };
  EXPECT_LT(TimeOf([&] { EXPECT_TRUE(Await([&] { return channels() == kLocks; })); }),
            kLocks * kDelay / 2)
      << "one after the other would take twice as long";
  for (const auto& lock : theirs) lock->unlock();
  EXPECT_TRUE(Await([&] { return acquired == kLocks; }));
}

TEST_F(RedissonLocks, ChannelIsLeftWhenTheWaitIsOver) {
  const Client one = Connect(), two = Connect();
  redisson::Lock theirs(one, "a"), mine(two, "a");
  auto lease = Must(theirs.Acquire());
  std::stop_source stop;
  std::thread waiter([&] {
    EXPECT_EQ(mine.Acquire({.stop = stop.get_token()}).status().code(),
              absl::StatusCode::kCancelled);
  });
  EXPECT_TRUE(Await([&] { return Listeners("redisson_lock__channel:{a}") == 1; }));
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(Await([&] { return Listeners("redisson_lock__channel:{a}") == 0; }));
}

// Java's forced unlock, seen from a C++ waiter: the key goes, and a message comes.
TEST_F(RedissonLocks, MessageWakesTheWaiterLongBeforeTheLeaseEnds) {
  server_->Command({"HSET", "a", kJavaThread, "1"});
  server_->Command({"PEXPIRE", "a", "600000"});
  redisson::Lock lock(client_, "a");
  std::jthread waiter([&] { EXPECT_TRUE(lock.Acquire({.wait = kTimeout}).ok()); });
  EXPECT_TRUE(Await([&] { return Listeners("redisson_lock__channel:{a}") == 1; }));
  server_->Command({"DEL", "a"});
  server_->Command({"PUBLISH", "redisson_lock__channel:{a}", "0"});
}

// A release that a new primary has not received is repeated.
TEST_F(RedissonLocks, RepeatedReleaseGivesBackAllPermits) {
  redisson::Semaphore slots(client_, "slots");
  ASSERT_TRUE(*slots.TrySetPermits(5));
  auto permits = Must(slots.Acquire(5));
  server_->Command({"COPY", "slots", "before"});
  server_->Command({"COPY", "redlatch:2:{slots}:redisson.permits", "taken"});
  ASSERT_TRUE(permits.Release().ok());
  server_->Command({"COPY", "before", "slots", "REPLACE"});
  server_->Command({"COPY", "taken", "redlatch:2:{slots}:redisson.permits", "REPLACE"});
  server_->KillClients();
  EXPECT_TRUE(Await([&] { return slots.AvailablePermits().value_or(0) == 5; }));
}

TEST_F(RedissonLocks, NumbersThatJavaCannotCountAreRefused) {
  redisson::PermitExpirableSemaphore slots(client_, "slots");
  const int64_t most = std::numeric_limits<int32_t>::max();
  for (const int64_t bad : {int64_t{-1}, most + 1, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(slots.TrySetPermits(bad).status(),
                IsError(absl::StatusCode::kInvalidArgument, HasSubstr("0 to 2147483647")));
    EXPECT_EQ(slots.SetPermits(bad).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(server_->Integer({"EXISTS", "slots"}), 0);
  }
  ASSERT_TRUE(*slots.TrySetPermits(most));
  for (const int64_t bad : {int64_t{1}, -2 * most - 1, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(Refusal(slots.AddPermits(bad)), HasSubstr("what Java can count"));
  }
  EXPECT_TRUE(slots.AddPermits(-most).ok());
  EXPECT_EQ(*slots.AvailablePermits(), 0);
  EXPECT_EQ(redisson::Semaphore(client_, "shared").TryAcquire(1001).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RedissonLocks, LargeNumbersAreReadAsTheyAre) {
  for (const int64_t large : {int64_t{100'000'000'000'000}, std::numeric_limits<int64_t>::max()}) {
    server_->Do({"SET", "slots", absl::StrCat(large)});
    const auto available = redisson::Semaphore(client_, "slots").AvailablePermits();
    EXPECT_TRUE(available.ok() && *available == large) << available.status();
    redisson::CountDownLatch latch(client_, absl::StrCat("done", large));
    ASSERT_TRUE(*latch.TrySetCount(large));
    EXPECT_TRUE(latch.CountDown().ok());
    const auto count = latch.Count();
    EXPECT_TRUE(count.ok() && *count == large - 1) << count.status();
  }
}

// They lose their places just before the release.
TEST_F(RedissonLocks, FairWaiterBehindVeryManyDeadOnesGetsTheLockSoon) {
  const Client holder = Connect(), client = Connect();
  redisson::FairLock theirs(holder, "a"), mine(client, "a");
  auto lease = Must(theirs.Acquire());
  Queue(1000, "dead-", "9e12");
  auto waiter = std::async(std::launch::async, [&] { return mine.Acquire({.wait = kTimeout}); });
  ASSERT_TRUE(Await([&] { return Queued() == 1001; }));
  for (int i = 0; i < 1000; ++i) {
    server_->Do({"ZADD", "redisson_lock_timeout:{a}", "1", absl::StrCat("dead-", i)});
  }
  const absl::Duration took = TimeOf([&] {
    EXPECT_TRUE(lease.Release().ok());
    const auto got = Must(waiter.get());
  });
  EXPECT_LT(took, kTimeout / 4);
  EXPECT_EQ(Queued(), 0);
}

TEST_F(RedissonLocks, LastReaderOfVeryManyDeadOnesFreesTheLock) {
  redisson::ReadWriteLock lock(client_, "a");
  auto reads = Must(lock.AcquireRead({.lease = absl::Minutes(10)}));
  for (int i = 0; i < 500; ++i) server_->Do({"HSET", "a", absl::StrCat(kJavaThread, i), "1"});
  EXPECT_TRUE(reads.Release().ok());
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "a"}) == 0; }));
}

// Each waiter asks when it comes, when it listens, and when it is its turn, however many there are.
TEST_F(RedissonLocks, MessageLetsAsManyAskAsThereArePermits) {
  std::vector<int> counts = {100, 300, 1000};
  if (support::FullBars()) counts.push_back(3000);
  for (const int waiters : counts) {
    const Client holder = Connect(), client = Connect();
    const std::string name = absl::StrCat("slots", waiters);
    redisson::Semaphore theirs(holder, name), mine(client, name);
    ASSERT_TRUE(*theirs.TrySetPermits(1));
    auto permit = Must(theirs.Acquire());
    std::atomic<int> acquired = 0;
    CallsSince("evalsha");
    for (int i = 0; i < waiters; ++i) {
      mine.AcquireAsync(1, {}, [&](const absl::StatusOr<Permit>& got) {
        EXPECT_TRUE(got.ok()) << got.status();
        ++acquired;
      });  // the permit ends with the call
    }
    int64_t scripts = 0;
    // Who comes when the client already listens asks once; the others ask again when it listens.
    EXPECT_TRUE(Await([&] { return (scripts += CallsSince("evalsha")) >= waiters; }));
    EXPECT_TRUE(permit.Release().ok());
    EXPECT_TRUE(Await([&] { return acquired == waiters; }, absl::Minutes(1))) << acquired;
    scripts += CallsSince("evalsha");
    std::printf("%d waiters send %d scripts\n", waiters, static_cast<int>(scripts));
    EXPECT_LE(scripts, 8 * waiters) << waiters;
  }
}

// Several releases may come before the first waiter has asked, and a message may get lost.
TEST_F(RedissonLocks, NextWaiterAsksWhenOneHasSucceeded) {
  redisson::Semaphore slots(client_, "slots");
  ASSERT_TRUE(*slots.TrySetPermits(0));
  EXPECT_TRUE(IsBusy(slots.TryAcquire().status()));  // the server knows the script from here on
  CallsSince("evalsha");
  std::vector<std::future<absl::StatusOr<Permit>>> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.push_back(
        std::async(std::launch::async, [&] { return slots.Acquire(1, {.wait = kTimeout}); }));
  }
  ASSERT_TRUE(AwaitAsked(6));
  server_->Do({"INCRBY", "slots", "3"});
  server_->Do({"PUBLISH", "redisson_sc:{slots}", "1"});
  const absl::Duration took = TimeOf([&] {
    std::vector<absl::StatusOr<Permit>> permits;
    for (auto& waiter : waiters) {
      permits.push_back(waiter.get());
      EXPECT_TRUE(permits.back().ok()) << permits.back().status();
    }
  });
  EXPECT_LT(took, kTimeout / 5);
}

TEST_F(RedissonLocks, WaiterThatWantsFewerPermitsAsksBehindOneThatWantsMore) {
  redisson::Semaphore slots(client_, "slots");
  ASSERT_TRUE(*slots.TrySetPermits(0));
  EXPECT_TRUE(IsBusy(slots.TryAcquire().status()));
  CallsSince("evalsha");
  std::stop_source stop;
  std::jthread wants_more([&] { EXPECT_FALSE(slots.Acquire(5, {.stop = stop.get_token()}).ok()); });
  ASSERT_TRUE(AwaitAsked(2));
  auto waiter =
      std::async(std::launch::async, [&] { return slots.Acquire(1, {.wait = kTimeout}); });
  ASSERT_TRUE(AwaitAsked(2));
  const absl::Duration took = TimeOf([&] {
    EXPECT_TRUE(slots.AddPermits(1).ok());
    const auto permit = Must(waiter.get());
  });
  EXPECT_LT(took, kTimeout / 5);
  stop.request_stop();
}

TEST_F(RedissonLocks, AddPermitsIsNotRepeatedWhenItsReplyIsLost) {
  support::TcpProxy proxy({.port = server_->port()});
  const Client client = support::Connect(proxy.url() + "?command_timeout=500ms");
  redisson::Semaphore slots(client, "slots");
  ASSERT_TRUE(*slots.TrySetPermits(1));
  proxy.DropReplies(1);
  EXPECT_TRUE(absl::IsUnavailable(slots.AddPermits(2)));
  proxy.Heal();
  EXPECT_TRUE(Await([&] { return slots.AvailablePermits().ok(); }));
  EXPECT_EQ(server_->Text({"GET", "slots"}), "3");
  server_->Do({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(slots.AddPermits(2).ok()) << "it is sent twice, and executed once";
  EXPECT_EQ(server_->Text({"GET", "slots"}), "5");
}

TEST_F(RedissonLocks, JavasPermitsDoNotExpireWhateverTheName) {
  redisson::PermitExpirableSemaphore slots(client_, "redisson.permits");
  ASSERT_TRUE(*slots.TrySetPermits(1));
  const auto permit = Must(slots.TryAcquire());
  EXPECT_EQ(server_->Integer({"PTTL", "{redisson.permits}:timeout"}), -1);
  EXPECT_EQ(slots.Inspect()->kind, "redisson_permit_expirable_semaphore");
}

// A repeat may come as late as the client may send it.
TEST_F(RedissonLocks, CountIsRememberedForAsLongAsItIsRepeated) {
  for (const absl::Duration repeats : {absl::Minutes(5), absl::InfiniteDuration()}) {
    const Client client = support::Connect(server_->url(), {.unreachable_after = repeats});
    redisson::CountDownLatch latch(client, "done");
    ASSERT_TRUE(*latch.TrySetCount(1));
    EXPECT_TRUE(latch.CountDown().ok());
    const auto marks = server_->Do({"KEYS", "redlatch:2:{done}:redisson.counted.*"}).elements;
    ASSERT_EQ(marks.size(), 2);
    for (const redis::Reply& mark : marks) {
      EXPECT_GT(server_->Integer({"PTTL", mark.text}), 300'000);
    }
    server_->Do({"FLUSHALL"});
  }
}

// The channel of such a latch is in another slot than its key.
TEST_F(RedissonLocks, LatchWithABraceIsRefusedInACluster) {
  const Client client =
      support::Connect("redis-cluster://127.0.0.1:1", {.connect = ConnectPolicy::kLazy});
  redisson::CountDownLatch latch(client, "import:{a}");
  EXPECT_THAT(latch.CountDown(),
              IsError(absl::StatusCode::kInvalidArgument, HasSubstr("import:{a}\": CROSSSLOT")));
  EXPECT_EQ(latch.Wait({.wait = kTimeout}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RedissonLocks, LatchOpensForAllAndMayBeSetAgain) {
  redisson::CountDownLatch latch(client_, "done");
  EXPECT_TRUE(latch.try_wait()) << "it was never set";
  ASSERT_TRUE(*latch.TrySetCount(2));
  EXPECT_FALSE(*latch.TrySetCount(3));
  EXPECT_FALSE(latch.try_wait());
  latch.count_down();
  EXPECT_EQ(*latch.Count(), 1);
  std::thread waiter([&] { latch.wait(); });
  EXPECT_TRUE(Await([&] { return Listeners("redisson_countdownlatch__channel__{done}") == 1; }));
  latch.count_down();
  waiter.join();
  EXPECT_TRUE(*latch.TrySetCount(1));
  latch.arrive_and_wait();
}

}  // namespace
}  // namespace redlatch
