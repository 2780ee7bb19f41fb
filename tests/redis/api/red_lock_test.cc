#include "redlatch/run_locked.h"
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;

constexpr char kName[] = "orders:42";

struct RedLockTest : ::testing::Test {
  Client Connect(const std::string& options = {}) {
    return support::Connect(servers_.url(options));
  }

  QuorumGroup servers_;
};

TEST_F(RedLockTest, ErrorNamesSilentServers) {
  const Client client = Connect("command_timeout=300ms");
  RedLock lock(client, kName);
  lock.lock();
  lock.unlock();
  for (const size_t i : {0, 1, 2}) servers_[i].Kill();
  const absl::StatusOr<Lease> lease = lock.TryAcquire();
  EXPECT_TRUE(absl::IsUnavailable(lease.status())) << lease.status();
  // The second live server may not have answered yet.
  EXPECT_THAT(std::string(lease.status().message()),
              ContainsRegex("[12] of 5 servers answered, and 3 are needed"));
  EXPECT_THAT(std::string(lease.status().message()), HasSubstr(servers_[1].url()));
}

TEST_F(RedLockTest, SeveralClientsFormOneQuorum) {
  std::vector<Client> clients;
  for (size_t i = 0; i < servers_.size(); ++i) {
    clients.push_back(support::Connect(servers_[i].url()));
  }
  RedLock lock(clients, kName);
  const std::scoped_lock guard(lock);
  EXPECT_TRUE(lock.current().valid());
  RedLock same(clients, kName);
  EXPECT_TRUE(same.current().valid());  // the same client's lock, held by this thread
  RedLock apart(Connect(), kName);
  EXPECT_FALSE(apart.try_lock());
}

TEST_F(RedLockTest, RefusesLeaseLongerThanRestartDelay) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      RedLock(Connect("restart_delay=2200ms"), kName, {.lease = absl::Seconds(3)})
          .TryAcquire()
          .status()));
}

TEST_F(RedLockTest, QuorumClientRefusesOtherLocks) {
  const absl::StatusOr<Lease> lease = SimpleLock(Connect(), kName).TryAcquire();
  EXPECT_THAT(lease.status(), IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("RedLock")));
}

using QuorumRefusal = RedLockTest;

TEST_F(QuorumRefusal, KeyOfOtherTypeOnMinorityIsLeftAlone) {
  RedLock lock(Connect(), kName);
  for (const size_t i : {0, 1}) servers_[i].Do({"RPUSH", kName, "theirs"});
  for (int i = 0; i < 5; ++i) {
    auto lease = Must(lock.Acquire({.wait = absl::Seconds(2)}));
    EXPECT_TRUE(lease.Release().ok());
  }
  for (const size_t i : {0, 1}) EXPECT_EQ(servers_[i].Text({"LINDEX", kName, "0"}), "theirs");
}

TEST_F(QuorumRefusal, KeyOfOtherTypeOnMajorityIsNamed) {
  for (const size_t i : {0, 1, 2}) servers_[i].Do({"RPUSH", kName, "theirs"});
  const base::Instant began = base::Now();
  const absl::Status status = RedLock(Connect(), kName, {.lease = absl::Seconds(1)})
                                  .Acquire({.wait = absl::Seconds(20)})
                                  .status();
  EXPECT_LT(base::Now() - began, absl::Seconds(5));
  EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("WRONGTYPE")));
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(servers_[i].Text({"LINDEX", kName, "0"}), "theirs");
  const std::string queue = support::AuxiliaryKey(kName, "quorum.queue");
  for (const size_t i : {3, 4}) {
    EXPECT_TRUE(Await([&] { return servers_[i].Integer({"EXISTS", kName, queue}) == 0; })) << i;
  }
}

TEST_F(QuorumRefusal, RefusingServerIsAskedOnlyNowAndThen) {
  RedLock lock(Connect(), kName);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "1"});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  const auto idle = Must(lock.Acquire());
  for (const size_t i : {0, 4}) servers_[i].Do({"CONFIG", "RESETSTAT"});
  EXPECT_FALSE(Await([&] { return !idle.valid(); }, absl::Seconds(1)));
  // A hold of 30 s need not be renewed yet.
  EXPECT_LE(servers_[0].Calls({"eval", "evalsha"}), 2);
  EXPECT_LE(servers_[4].Calls({"eval", "evalsha"}), 5 * 10);  // for the keys of five releases
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "0"});
}

// A RedLock's unlock() writes the release to all servers and waits for none.

// How long a call may take that does not wait, on a busy machine.
constexpr absl::Duration kAtOnce = absl::Seconds(5);
// Far less than the lease.
constexpr absl::Duration kUnlockSoon = absl::Seconds(5);

struct RedLockUnlock : RedLockTest {
  void SetUp() override {
    lock_.lock();
    ASSERT_TRUE(Await([&] { return servers_.Having(kName) == 5; }));
  }
  bool IsFreeEverywhere(absl::Duration within = kUnlockSoon) {
    return Await([&] { return servers_.Having(kName) == 0; }, within);
  }

  RedLock lock_{Connect("command_timeout=30s"), kName};
};

TEST_F(RedLockUnlock, DoesNotWaitForHungServers) {
  for (size_t i = 0; i < 5; ++i) servers_[i].Stop();
  const absl::Duration took = TimeOf([&] { lock_.unlock(); });
  for (size_t i = 0; i < 5; ++i) servers_[i].Continue();
  EXPECT_LT(took, kAtOnce);
  EXPECT_TRUE(IsFreeEverywhere());
}

TEST_F(RedLockUnlock, ForkedChildReleasesNothing) {
  lock_.unlock();
  for (int i = 0; i < 10; ++i) {
    std::optional<Client> client = Connect();
    std::optional<RedLock> lock(std::in_place, *client, kName);
    lock->lock();
    lock->unlock();
    const auto destroy = [&] {
      lock.reset();
      client.reset();
      return 0;
    };
    EXPECT_EQ(support::CodeOfFork(destroy), 0);
    destroy();
    ASSERT_TRUE(IsFreeEverywhere(absl::Seconds(2))) << i;
  }
}

// A call that waits for the node to come back names the node's earlier run.
TEST(RestartDelay, HoldsForCallsThatWaitedForTheRestart) {
  const auto server = RedisServer::Start({.append_only = true});
  const Client client = support::Connect("redlock:" + server->url() + "?restart_delay=2s");
  RedLock lock(client, kName, {.lease = absl::Seconds(1)});
  EXPECT_TRUE(Must(lock.Acquire({.wait = absl::Seconds(20)})).Release().ok());
  server->Kill();
  absl::StatusOr<Lease> lease;
  std::thread waiter([&] { lease = lock.Acquire({.wait = absl::Milliseconds(1500)}); });
  EXPECT_TRUE(Await([&] { return client.Stats().all.waiting == 1; }));
  server->Restart();
  waiter.join();
  EXPECT_FALSE(lease.ok());
  EXPECT_TRUE(lock.Acquire({.wait = absl::Seconds(20)}).ok());
}

// A quorum of a cluster, a server with TLS, and the primary that sentinels name.

struct QuorumMembers : ::testing::Test {
  // One program's clients, one per member.
  std::vector<Client> Clients() {
    std::vector<Client> all;
    for (const std::string& url : {cluster_->url(), server_->tls_url(), sentinels_->url()}) {
      all.push_back(Connect(url));
    }
    return all;
  }
  bool IsHeldAtTheCluster() { return cluster_->CommandAt(kName, {"EXISTS", kName}).integer == 1; }
  bool IsHeldAtTheServer() { return server_->Integer({"EXISTS", kName}) == 1; }
  bool IsHeldAtThePrimary() {
    return sentinels_->server(*sentinels_->Primary()).Integer({"EXISTS", kName}) == 1;
  }

  // Two programs pass the lock to and fro, each waiting for the other.
  void TakeTurns() {
    std::atomic<int> inside{0};
    std::vector<std::jthread> threads;
    for (const auto* clients : {&one_, &other_}) {
      threads.emplace_back([&, clients] {
        RedLock lock(*clients, kName);
        for (int i = 0; i < 30; ++i) {
          auto lease = Must(lock.Acquire({.wait = absl::Seconds(5)}));
          EXPECT_EQ(++inside, 1);
          EXPECT_LT(last_, lease.fencing_token());
          last_ = lease.fencing_token();
          --inside;
          EXPECT_TRUE(lease.Release().ok());
        }
      });
    }
  }

  support::Authority authority_;
  const std::unique_ptr<ClusterGroup> cluster_ = ClusterGroup::Start();
  const std::unique_ptr<RedisServer> server_ = RedisServer::Start(
      {.tls = support::ServerTls{.cert = authority_.Certify(), .ca = authority_.file()}});
  const std::unique_ptr<support::SentinelGroup> sentinels_ =
      support::SentinelGroup::Start({.replicas = 1});
  const std::vector<Client> one_ = Clients();
  const std::vector<Client> other_ = Clients();
  FencingToken last_;
};

TEST_F(QuorumMembers, MayBeOfAnyServerGroup) {
  {
    // A member that was not connected yet is healed by the next renewal.
    const auto lease = Must(RedLock(one_, kName, {.lease = absl::Seconds(3)}).Acquire());
    EXPECT_TRUE(
        Await([&] { return IsHeldAtTheCluster() && IsHeldAtTheServer() && IsHeldAtThePrimary(); }));
  }
  EXPECT_TRUE(Await(
      [&] { return !IsHeldAtTheCluster() && !IsHeldAtTheServer() && !IsHeldAtThePrimary(); }));
  TakeTurns();
}

constexpr absl::Duration kMultiTimeout = absl::Seconds(10);

bool IsFree(const Client& client, const std::string& name) {
  return SimpleLock(client, name).TryAcquire().ok();
}

struct MultiLockTest : ::testing::Test {
  bool AwaitQueued(const std::string& name, int waiters = 1) {
    return Await([&] {
      return server_->Integer({"ZCARD", support::AuxiliaryKey(name, "simple.queue")}) == waiters;
    });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url());
  const Client other_ = Connect(server_->url());
};

TEST_F(MultiLockTest, OrderAndRepetitionDoNotMatter) {
  MultiLock lock(client_, {"b", "a", "b"}), one(client_, {"c", "c"});
  MultiLock same(client_, {"a", "b"});
  SimpleLock simple(client_, "c");
  const std::scoped_lock guard(lock, one);
  EXPECT_EQ(same.hold_count(), 1);
  EXPECT_TRUE(same.current().valid());
  EXPECT_EQ(simple.hold_count(), 1) << "a lock of one name is the simple lock of that name";
}

TEST_F(MultiLockTest, TakesLocksOfAnyClass) {
  ReentrantLock reentrant(client_, "reentrant");
  ReentrantReadWriteLock prices(client_, "prices");
  ReentrantReadWriteLock read_elsewhere(other_, "prices");
  SimpleLock simple(client_, "simple");
  MultiLock lock({&simple, &prices.read_lock(), &reentrant});
  {
    auto lease = Must(lock.Acquire({.wait = kMultiTimeout}));
    EXPECT_TRUE(lease.valid());
    EXPECT_GT(lease.remaining(), absl::Seconds(1));
    EXPECT_EQ(lease.fencing_token(), FencingToken());
    EXPECT_NE(lease.fencing_token("simple"), FencingToken());
    EXPECT_NE(lease.fencing_token("reentrant"), lease.fencing_token("simple"));
    EXPECT_EQ(lease.fencing_token("another"), FencingToken());
    EXPECT_FALSE(IsFree(other_, "simple"));
    EXPECT_TRUE(read_elsewhere.try_lock_shared());
    read_elsewhere.unlock_shared();
    EXPECT_FALSE(read_elsewhere.try_lock());
    EXPECT_TRUE(lease.Release().ok());
    EXPECT_FALSE(lease.valid());
    EXPECT_FALSE(lease.lost().stop_requested());
  }
  {
    const std::scoped_lock guard(lock);
    EXPECT_EQ(lock.hold_count(), 1);
    EXPECT_TRUE(lock.current().valid());
    EXPECT_EQ(prices.read_hold_count(), 1);
    EXPECT_FALSE(read_elsewhere.try_lock());
  }
  EXPECT_EQ(lock.hold_count(), 0);
  EXPECT_TRUE(read_elsewhere.try_lock_for(std::chrono::seconds(5)));
  EXPECT_FALSE(lock.try_lock_for(std::chrono::milliseconds(20)));
  EXPECT_TRUE(Await([&] { return IsFree(other_, "simple"); }));
  read_elsewhere.unlock();
}

TEST_F(MultiLockTest, ErrorNamesUnsupportedLocks) {
  const auto refusal = [](MultiLock& lock) {
    EXPECT_FALSE(lock.current().valid());
    EXPECT_EQ(lock.hold_count(), 0);
    lock.unlock();
    EXPECT_THROW(lock.lock(), std::system_error);
    const absl::Status status = lock.TryAcquire().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(lock.Inspect().status(), status);
    EXPECT_EQ(lock.ForceRelease(), status);
    return std::string(status.message());
  };
  MultiLock none(client_, {});
  EXPECT_THAT(refusal(none), HasSubstr("at least one"));
  MultiLock empty(std::vector<MultiLock::Part>{});
  EXPECT_THAT(refusal(empty), HasSubstr("at least one"));
  std::vector<std::string> names;
  for (int i = 0; i < 65; ++i) names.push_back(absl::StrCat(i));
  MultiLock large(client_, names);
  EXPECT_THAT(refusal(large), HasSubstr("64"));
  ReentrantReadWriteLock prices(client_, "prices");
  MultiLock sides({&prices, &prices.read_lock()});
  EXPECT_THAT(refusal(sides), HasSubstr("twice"));
  SimpleLock a(client_, "a");
  MultiLock inner({&a});
  MultiLock outer({&a, &inner});
  EXPECT_THAT(refusal(outer), HasSubstr("name its locks"));
  MultiLock nothing({&a, static_cast<SimpleLock*>(nullptr)});
  EXPECT_THAT(refusal(nothing), HasSubstr("null"));
}

TEST_F(MultiLockTest, TakesMostAndLongestNames) {
  std::vector<std::string> names;
  for (int i = 0; i < 64; ++i) names.push_back(absl::StrCat(std::string(4000, 'x'), i));
  MultiLock lock(client_, names);
  MultiLock same(other_, names);
  auto lease = Must(lock.Acquire());
  absl::StatusOr<Lease> got;
  std::thread waiter([&] { got = same.Acquire({.wait = kMultiTimeout}); });
  ASSERT_TRUE(AwaitQueued(names.back()));
  EXPECT_TRUE(lease.Release().ok());
  waiter.join();
  EXPECT_TRUE(got.ok()) << got.status();
}

TEST_F(MultiLockTest, TakesRedLockBesideOthers) {
  std::vector<std::unique_ptr<RedisServer>> servers;
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(RedisServer::Start());
    clients.push_back(Connect(servers.back()->url()));
  }
  RedLock quorum(clients, "q");
  SimpleLock simple(client_, "s");
  MultiLock lock({&quorum, &simple});
  auto lease = Must(lock.Acquire({.wait = kMultiTimeout}));
  EXPECT_NE(lease.fencing_token("q"), FencingToken());
  EXPECT_FALSE(quorum.TryAcquire().ok());
  EXPECT_FALSE(IsFree(other_, "s"));
}

// A waiting call owns everything that it needs; the sanitizers find any use of the destroyed locks.
TEST_F(MultiLockTest, MayBeDestroyedWithItsLocksDuringCall) {
  const auto held = ReentrantLock(Connect(server_->url()), "b").Acquire();
  const std::string queue = support::AuxiliaryKey("b", "reentrant.queue");
  for (int way = 0; way < 6; ++way) {
    ReentrantReadWriteLock prices(other_, "prices");
    auto a = std::make_unique<ReentrantLock>(client_, "a");
    auto b = std::make_unique<ReentrantLock>(client_, "b");
    std::vector<MultiLock::Part> parts = {a.get(), b.get()};
    if (way % 2 == 0) parts.emplace_back(&prices.read_lock());  // from two clients
    auto lock = std::make_unique<MultiLock>(std::move(parts));
    absl::Status ended;
    std::atomic<bool> done{false};
    std::thread waiter([&, multi = lock.get()] {
      if (way < 2) {
        ended = multi->Acquire({.wait = absl::Hours(1)}).status();
      } else if (way < 4) {
        EXPECT_THROW(multi->lock(), std::system_error);
        ended = absl::CancelledError();
      } else {
        multi->AcquireAsync({}, [&](const absl::StatusOr<Lease>& lease) {
          ended = lease.status();
          done = true;
        });
        return;
      }
      done = true;
    });
    ASSERT_TRUE(Await([&] { return server_->Integer({"ZCARD", queue}) == 1; }));
    lock.reset();
    a.reset();
    b.reset();
    waiter.join();
    EXPECT_TRUE(Await([&] { return done.load(); }));
    EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
    EXPECT_TRUE(Await([&] { return server_->Integer({"ZCARD", queue}) == 0; }));
    EXPECT_TRUE(Await([&] { return IsFree(other_, "a"); }));
  }
}

// A std::stop_callback on the lease's token waits for a mutex. The lease's destructor must not wait
// for that callback.
TEST_F(MultiLockTest, LeaseMayBeDroppedUnderMutexOfCallback) {
  ReentrantLock a(client_, "a");
  SimpleLock b(client_, "b");
  MultiLock lock({&a, &b});
  auto lease = std::make_unique<Lease>(*lock.Acquire());
  std::mutex mutex;
  std::atomic<bool> told{false};
  std::atomic<bool> reported{false};
  std::atomic<bool> dropped{false};
  const std::stop_callback on_loss(lease->lost(), [&] {
    told = true;
    const std::lock_guard guard(mutex);
    reported = true;
  });
  mutex.lock();
  EXPECT_TRUE(a.ForceRelease().ok());
  ASSERT_TRUE(Await([&] { return told.load(); }));
  std::thread dropper([&] {
    lease.reset();
    dropped = true;
  });
  EXPECT_TRUE(Await([&] { return dropped.load(); }));
  EXPECT_FALSE(reported);
  mutex.unlock();
  dropper.join();
  EXPECT_TRUE(Await([&] { return reported.load(); }));
}

TEST_F(MultiLockTest, ThreadDoesNotWaitForItself) {
  ReentrantReadWriteLock prices(client_, "prices");
  SimpleLock simple(client_, "s");
  MultiLock lock({&prices, &simple});
  prices.lock_shared();
  EXPECT_FALSE(lock.try_lock());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  EXPECT_FALSE(lock.try_lock_until(deadline));
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
  try {
    lock.lock();
    ADD_FAILURE() << "it reads what it was to write";
  } catch (const std::system_error& refused) {
    EXPECT_EQ(refused.code(), std::errc::resource_deadlock_would_occur);
  }
  prices.unlock_shared();
  EXPECT_TRUE(IsFree(other_, "s"));
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace redlatch
