#include "redlatch/run_locked.h"
#include "src/redis/wire/slot.h"
#include "tests/redis/api/released.h"
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"
#include "tests/support/sentinel_group.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;

// The same servers as one client sees them: through proxies of its own.
class ProxiedQuorum {
 public:
  explicit ProxiedQuorum(QuorumGroup& servers) {
    for (size_t i = 0; i < servers.size(); ++i) {
      proxies_.push_back(
          std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = servers[i].port()}));
    }
  }

  TcpProxy& operator[](size_t i) { return *proxies_[i]; }

  std::string url(const std::string& options = {}) const {
    return support::QuorumUrl(proxies_, options);
  }

 private:
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
};

// Five servers, and proxies through which a client sees them.
class QuorumFixture : public ::testing::Test {
 protected:
  static constexpr char kName[] = "orders:42";

  bool IsHeldAt(size_t i) { return servers_[i].Integer({"EXISTS", kName}) == 1; }
  bool IsWaitedForAt(size_t i) {
    return servers_[i].Integer({"EXISTS", support::AuxiliaryKey(kName, "quorum.queue")}) == 1;
  }
  // Neither held nor waited for, there.
  bool Forgets(size_t i) {
    return Await([&] { return !IsHeldAt(i) && !IsWaitedForAt(i); }, absl::Seconds(3));
  }

  QuorumGroup servers_;
  ProxiedQuorum proxies_{servers_};
};

constexpr char kRedLockName[] = "orders:42";

class RedLockTest : public ::testing::Test {
 protected:
  Client Connect(const std::string& options = {}) {
    return support::Connect(servers_.url(options));
  }

  QuorumGroup servers_;
};

TEST_F(RedLockTest, SaysWhoDoesNotAnswer) {
  const Client client = Connect("command_timeout=300ms");
  RedLock lock(client, kRedLockName);
  lock.lock();
  lock.unlock();
  for (const size_t i : {0, 1, 2}) servers_[i].Kill();
  const absl::StatusOr<Lease> lease = lock.TryAcquire();
  EXPECT_TRUE(absl::IsUnavailable(lease.status())) << lease.status();
  // The second of those that live need not have answered yet.
  EXPECT_THAT(std::string(lease.status().message()),
              ContainsRegex("[12] of 5 servers answered, and 3 are needed"));
  EXPECT_THAT(std::string(lease.status().message()), HasSubstr(servers_[1].url()));
}

TEST_F(RedLockTest, OfSeveralClientsIsOfOneQuorum) {
  std::vector<Client> clients;
  for (size_t i = 0; i < servers_.size(); ++i) {
    clients.push_back(support::Connect(servers_[i].url()));
  }
  RedLock lock(clients, kRedLockName);
  const std::scoped_lock guard(lock);
  EXPECT_TRUE(lock.current().valid());
  RedLock same(clients, kRedLockName);
  EXPECT_TRUE(same.current().valid());  // of the same client: this thread's
  RedLock apart(Connect(), kRedLockName);
  EXPECT_FALSE(apart.try_lock());
}

TEST_F(RedLockTest, LeaseLongerThanTheRestartDelayIsRefused) {
  RedLock lock(Connect("restart_delay=2200ms"), kRedLockName, {.lease = absl::Seconds(3)});
  EXPECT_TRUE(absl::IsInvalidArgument(lock.TryAcquire().status()));
}

TEST_F(RedLockTest, ItsClientIsForNoOtherLock) {
  SimpleLock lock(Connect(), kRedLockName);
  const absl::StatusOr<Lease> lease = lock.TryAcquire();
  EXPECT_THAT(lease.status(), IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("RedLock")));
}

// RedLocks some of whose servers refuse: a key of another type, a missing permission, full memory,
// scripts that are gone. A minority is outvoted; a majority's reason is told.

class RefusalAtAQuorum : public QuorumFixture {
 protected:
  // It works as if nothing were wrong, several times.
  void Works() {
    for (int i = 0; i < 5; ++i) {
      auto lease = Must(lock_.Acquire({.wait = absl::Seconds(2)}));
      EXPECT_TRUE(lease.Release().ok());
    }
  }
  // At once, and nothing is left where it would have been granted.
  absl::Status Refuses(const std::vector<size_t>& healthy) {
    const base::Instant began = base::Now();
    absl::Status status = lock_.Acquire({.wait = absl::Seconds(20)}).status();
    EXPECT_LT(base::Now() - began, absl::Seconds(5));
    for (const size_t i : healthy) EXPECT_TRUE(Forgets(i)) << i;
    return status;
  }

  // How many that server has been asked to run since its statistics were reset.
  int64_t Scripts(size_t i) {
    const std::string stats = servers_[i].Text({"INFO", "commandstats"});
    int64_t calls = 0;
    for (const char* const command : {"eval", "evalsha"}) {
      const std::string line = absl::StrCat("cmdstat_", command, ":calls=");
      const size_t at = stats.find(line);
      if (at != std::string::npos) calls += std::stoll(stats.substr(at + line.size()));
    }
    return calls;
  }

  RedLock lock_{Connect(servers_.url()), kName, {.lease = absl::Seconds(1)}};
};

TEST_F(RefusalAtAQuorum, AKeyOfAnotherTypeOnAMinorityIsLeftAlone) {
  for (const size_t i : {0, 1}) servers_[i].Do({"RPUSH", kName, "theirs"});
  Works();
  for (const size_t i : {0, 1}) EXPECT_EQ(servers_[i].Text({"LINDEX", kName, "0"}), "theirs");
}

TEST_F(RefusalAtAQuorum, AKeyOfAnotherTypeOnAMajorityIsNamed) {
  for (const size_t i : {0, 1, 2}) servers_[i].Do({"RPUSH", kName, "theirs"});
  const absl::Status status = Refuses({3, 4});
  EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("WRONGTYPE")));
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(servers_[i].Text({"LINDEX", kName, "0"}), "theirs");
}

TEST_F(RefusalAtAQuorum, FullMemoryOfAMajorityIsToldAndHoldsGoOn) {
  auto lease = Must(lock_.Acquire());
  for (const size_t i : {0, 2, 4}) servers_[i].Do({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_FALSE(Await([&] { return !lease.valid(); }, absl::Seconds(2))) << "it is renewed";
  EXPECT_TRUE(lease.Release().ok());
  const absl::Status status = lock_.TryAcquire().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(Forgets(i)) << i;
}

TEST_F(RefusalAtAQuorum, AServerThatRefusesForNowIsAskedNowAndThenAndNobodyElseMoreThanBefore) {
  RedLock lock(Connect(servers_.url()), kName);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "1"});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  const auto idle = Must(lock.Acquire());
  for (const size_t i : {0, 4}) servers_[i].Do({"CONFIG", "RESETSTAT"});
  EXPECT_FALSE(Await([&] { return !idle.valid(); }, absl::Seconds(1)));
  // A hold of 30 s is not due to be renewed yet.
  EXPECT_LE(Scripts(0), 2);
  EXPECT_LE(Scripts(4), 5 * 10);  // what five releases left, with back-off
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "0"});
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(IsHeldAt(i)) << i;
}

// A user whom that server lets do nothing with this lock.
TEST(PermissionsAtAQuorum, OneServersRefusalIsOutvoted) {
  std::vector<std::unique_ptr<RedisServer>> servers;
  std::string url;
  for (int i = 0; i < 3; ++i) {
    const char* const keys = i == 1 ? "~other:*" : "~*";
    servers.push_back(
        RedisServer::Start({.acl = {absl::StrCat("user app on >secret ", keys, " &* +@all")}}));
    absl::StrAppend(&url, url.empty() ? "redlock:" : ",",
                    "redis://app:secret@127.0.0.1:", servers.back()->port());
  }
  const Client client = Connect(url);
  RedLock lock(client, "orders:42");
  for (int i = 0; i < 5; ++i) {
    auto lease = Must(lock.Acquire({.wait = absl::Seconds(2)}));
    EXPECT_TRUE(lease.Release().ok());
  }
  // Without one of the others there is no majority, and the reason is the one that lasts.
  servers[2]->Kill();
  const absl::Status status = lock.Acquire({.wait = absl::Seconds(20)}).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

// RedLocks some of whose servers answer late, or never.

constexpr char kSlowName[] = "orders:42";

// Renewals of the short leases are given up before an answer can come; those of a longer lease must
// not be.
TEST(FarQuorum, LongLeaseIsRenewedBesideShortOnes) {
  QuorumGroup servers(3);
  ProxiedQuorum far(servers);
  const Client client = Connect(far.url());
  for (size_t i = 0; i < servers.size(); ++i) {
    far[i].Delay(Direction::kToServer, absl::Milliseconds(30));
    far[i].Delay(Direction::kToClient, absl::Milliseconds(30));
  }
  std::atomic<bool> goes_on{true};
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&, i] {
      RedLock lock(client, absl::StrCat("short:", i), {.lease = absl::Milliseconds(120)});
      while (goes_on) {
        const absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Milliseconds(200)});
        if (lease.ok()) Await([&] { return !lease->valid(); });
      }
    });
  }
  RedLock lock(client, kSlowName, {.lease = absl::Seconds(6)});
  const auto lease = Must(lock.Acquire());
  const auto renewals = [&] {
    for (const auto& each : client.Stats().locks) {
      if (each.name == kSlowName) return each.renewed;
    }
    return uint64_t{0};
  };
  EXPECT_TRUE(Await([&] { return renewals() >= 3 || !lease.valid(); }, absl::Seconds(60)));
  EXPECT_TRUE(lease.valid());
  goes_on = false;
  for (std::thread& thread : threads) thread.join();
}

// A RedLock's unlock() writes the release to all servers, and waits for none: what becomes of it.

// What a call may take that does not wait, on a machine that is busy.
constexpr absl::Duration kAtOnce = absl::Milliseconds(200);
// Far less than the lease.
constexpr absl::Duration kUnlockSoon = absl::Seconds(5);

class RedLockUnlock : public QuorumFixture {
 protected:
  void SetUp() override {
    lock_.lock();
    ASSERT_TRUE(Await([&] { return servers_.Having(kName) == 5; }));
  }
  bool IsFreeEverywhere(absl::Duration within = kUnlockSoon) {
    return Await([&] { return servers_.Having(kName) == 0; }, within);
  }

  const std::shared_ptr<Released> released_ = std::make_shared<Released>();
  std::optional<Client> client_ = Connect(proxies_.url(), {.observer = released_});
  RedLock lock_{*client_, kName};
};

TEST_F(RedLockUnlock, DoesNotWaitForServersThatHang) {
  for (size_t i = 0; i < 5; ++i) servers_[i].Stop();
  const absl::Duration took = TimeOf([&] { lock_.unlock(); });
  for (size_t i = 0; i < 5; ++i) servers_[i].Continue();
  EXPECT_LT(took, kAtOnce);
  EXPECT_TRUE(IsFreeEverywhere());
  ASSERT_TRUE(Await([&] { return released_->results().size() == 1; }));
  EXPECT_TRUE(released_->results()[0].ok()) << released_->results()[0];
}

TEST_F(RedLockUnlock, AnObserverHearsThatAMajorityDidNotHaveIt) {
  for (const size_t i : {0, 1, 2}) servers_[i].Do({"DEL", kName});
  for (const size_t i : {3, 4}) servers_[i].Stop();  // they would answer, too, perhaps sooner
  lock_.unlock();
  EXPECT_TRUE(Await([&] { return released_->results().size() == 1; }));
  for (const size_t i : {3, 4}) servers_[i].Continue();
  ASSERT_EQ(released_->results().size(), 1U);
  EXPECT_TRUE(absl::IsAborted(released_->results()[0])) << released_->results()[0];
  EXPECT_TRUE(IsFreeEverywhere());
}

TEST_F(RedLockUnlock, AForkedChildHarmsNothing) {
  lock_.unlock();
  for (int i = 0; i < 10; ++i) {
    std::optional<Client> client = Connect(servers_.url());
    std::optional<RedLock> lock(std::in_place, *client, kName);
    lock->lock();
    lock->unlock();
    const pid_t child = fork();
    lock.reset();
    client.reset();
    if (child == 0) _exit(0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    ASSERT_TRUE(IsFreeEverywhere(absl::Seconds(2))) << i;
  }
}

// A quorum of a cluster, a server that speaks TLS, and whichever server some sentinels name.

constexpr char kMembersName[] = "orders:42";

class MembersOfAQuorum : public ::testing::Test {
 protected:
  // One program's clients of all of them.
  std::vector<Client> Clients() {
    std::vector<Client> all;
    for (const std::string& url : {cluster_->url(), server_->tls_url(), sentinels_->url()}) {
      Client client = Connect(url);
      all.push_back(std::move(client));
    }
    return all;
  }
  bool IsHeldAtTheCluster() {
    return cluster_->CommandAt(kMembersName, {"EXISTS", kMembersName}).integer == 1;
  }
  bool IsHeldAtTheServer() { return server_->Integer({"EXISTS", kMembersName}) == 1; }
  bool IsHeldAtThePrimary() {
    return sentinels_->server(*sentinels_->Primary()).Integer({"EXISTS", kMembersName}) == 1;
  }

  // The lock goes to and fro between two programs, each of which waits for the other.
  void TakeTurns() {
    std::atomic<int> inside{0};
    std::vector<std::thread> threads;
    for (const auto* clients : {&one_, &other_}) {
      threads.emplace_back([&, clients] {
        RedLock lock(*clients, kMembersName);
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
    for (std::thread& each : threads) each.join();
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

TEST_F(MembersOfAQuorum, MayBeOfAnyKind) {
  {
    // One that was not connected to yet is healed with the next renewal.
    RedLock lock(one_, kMembersName, {.lease = absl::Seconds(3)});
    const auto lease = Must(lock.Acquire());
    EXPECT_TRUE(
        Await([&] { return IsHeldAtTheCluster() && IsHeldAtTheServer() && IsHeldAtThePrimary(); }));
  }
  EXPECT_TRUE(Await(
      [&] { return !IsHeldAtTheCluster() && !IsHeldAtTheServer() && !IsHeldAtThePrimary(); }));
  TakeTurns();
}

TEST_F(MembersOfAQuorum, ASlotMovesUnderAHoldAndThePrimaryChanges) {
  RedLock lock(one_, kMembersName, {.lease = absl::Seconds(3)});
  auto lease = Must(lock.Acquire());
  EXPECT_TRUE(
      Await([&] { return IsHeldAtTheCluster() && IsHeldAtTheServer() && IsHeldAtThePrimary(); }));
  const redis::Slot slot = redis::SlotOf(kMembersName);
  cluster_->Move(slot, (*cluster_->OwnerOf(slot) + 1) % cluster_->servers());
  const size_t old = *sentinels_->Primary();
  sentinels_->server(old).Kill();
  sentinels_->AwaitPrimaryOtherThan(old);
  // It is renewed there, and healed where the failover has lost it.
  EXPECT_TRUE(Await([&] { return IsHeldAtThePrimary(); }, absl::Seconds(5)));
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(Await(
      [&] { return !IsHeldAtTheCluster() && !IsHeldAtTheServer() && !IsHeldAtThePrimary(); }));
  TakeTurns();
}

}  // namespace
}  // namespace redlatch
