#include "redlatch/run_locked.h"
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"
#include "tests/support/sentinel_group.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;

constexpr char kName[] = "orders:42";

class RedLockTest : public ::testing::Test {
 protected:
  Client Connect(const std::string& options = {}) {
    return support::Connect(servers_.url(options));
  }

  QuorumGroup servers_;
};

TEST_F(RedLockTest, SaysWhoDoesNotAnswer) {
  const Client client = Connect("command_timeout=300ms");
  RedLock lock(client, kName);
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
  RedLock lock(clients, kName);
  const std::scoped_lock guard(lock);
  EXPECT_TRUE(lock.current().valid());
  RedLock same(clients, kName);
  EXPECT_TRUE(same.current().valid());  // of the same client: this thread's
  RedLock apart(Connect(), kName);
  EXPECT_FALSE(apart.try_lock());
}

TEST_F(RedLockTest, LeaseLongerThanTheRestartDelayIsRefused) {
  RedLock lock(Connect("restart_delay=2200ms"), kName, {.lease = absl::Seconds(3)});
  EXPECT_TRUE(absl::IsInvalidArgument(lock.TryAcquire().status()));
}

TEST_F(RedLockTest, ItsClientIsForNoOtherLock) {
  SimpleLock lock(Connect(), kName);
  const absl::StatusOr<Lease> lease = lock.TryAcquire();
  EXPECT_THAT(lease.status(), IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("RedLock")));
}

using RefusalAtAQuorum = RedLockTest;

TEST_F(RefusalAtAQuorum, AKeyOfAnotherTypeOnAMinorityIsLeftAlone) {
  RedLock lock(Connect(), kName);
  for (const size_t i : {0, 1}) servers_[i].Do({"RPUSH", kName, "theirs"});
  for (int i = 0; i < 5; ++i) {
    auto lease = Must(lock.Acquire({.wait = absl::Seconds(2)}));
    EXPECT_TRUE(lease.Release().ok());
  }
  for (const size_t i : {0, 1}) EXPECT_EQ(servers_[i].Text({"LINDEX", kName, "0"}), "theirs");
}

TEST_F(RefusalAtAQuorum, AKeyOfAnotherTypeOnAMajorityIsNamed) {
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

TEST_F(RefusalAtAQuorum, AServerThatRefusesForNowIsAskedNowAndThenAndNobodyElseMoreThanBefore) {
  RedLock lock(Connect(), kName);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "1"});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  const auto idle = Must(lock.Acquire());
  for (const size_t i : {0, 4}) servers_[i].Do({"CONFIG", "RESETSTAT"});
  EXPECT_FALSE(Await([&] { return !idle.valid(); }, absl::Seconds(1)));
  // A hold of 30 s is not due to be renewed yet.
  EXPECT_LE(servers_[0].Calls({"eval", "evalsha"}), 2);
  EXPECT_LE(servers_[4].Calls({"eval", "evalsha"}), 5 * 10);  // what five releases left
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "0"});
}

// A RedLock's unlock() writes the release to all servers, and waits for none: what becomes of it.

// What a call may take that does not wait, on a machine that is busy.
constexpr absl::Duration kAtOnce = absl::Milliseconds(200);
// Far less than the lease.
constexpr absl::Duration kUnlockSoon = absl::Seconds(5);

class RedLockUnlock : public RedLockTest {
 protected:
  void SetUp() override {
    lock_.lock();
    ASSERT_TRUE(Await([&] { return servers_.Having(kName) == 5; }));
  }
  bool IsFreeEverywhere(absl::Duration within = kUnlockSoon) {
    return Await([&] { return servers_.Having(kName) == 0; }, within);
  }

  RedLock lock_{Connect(), kName};
};

TEST_F(RedLockUnlock, DoesNotWaitForServersThatHang) {
  for (size_t i = 0; i < 5; ++i) servers_[i].Stop();
  const absl::Duration took = TimeOf([&] { lock_.unlock(); });
  for (size_t i = 0; i < 5; ++i) servers_[i].Continue();
  EXPECT_LT(took, kAtOnce);
  EXPECT_TRUE(IsFreeEverywhere());
}

TEST_F(RedLockUnlock, AForkedChildHarmsNothing) {
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

// A quorum of a cluster, a server that speaks TLS, and whichever server some sentinels name.

class MembersOfAQuorum : public ::testing::Test {
 protected:
  // One program's clients of all of them.
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

  // The lock goes to and fro between two programs, each of which waits for the other.
  void TakeTurns() {
    std::atomic<int> inside{0};
    std::vector<std::thread> threads;
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
    RedLock lock(one_, kName, {.lease = absl::Seconds(3)});
    const auto lease = Must(lock.Acquire());
    EXPECT_TRUE(
        Await([&] { return IsHeldAtTheCluster() && IsHeldAtTheServer() && IsHeldAtThePrimary(); }));
  }
  EXPECT_TRUE(Await(
      [&] { return !IsHeldAtTheCluster() && !IsHeldAtTheServer() && !IsHeldAtThePrimary(); }));
  TakeTurns();
}

}  // namespace
}  // namespace redlatch
