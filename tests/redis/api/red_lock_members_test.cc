// A quorum of a cluster, a server that speaks TLS, and whichever server some sentinels name.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "src/redis/wire/slot.h"
#include "tests/support/authority.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"
#include "tests/support/redis_server.h"
#include "tests/support/sentinel_group.h"

namespace redlatch {
namespace {

using support::Await;

constexpr char kMembersName[] = "orders:42";

class MembersOfAQuorum : public ::testing::Test {
 protected:
  // One program's clients of all of them.
  std::vector<Client> Clients() {
    std::vector<Client> all;
    for (const std::string& url : {cluster_->url(), server_->tls_url(), sentinels_->url()}) {
      absl::StatusOr<Client> client = Client::Connect(url);
      EXPECT_TRUE(client.ok()) << client.status();
      all.push_back(*std::move(client));
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
          absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
          ASSERT_TRUE(lease.ok()) << lease.status();
          EXPECT_EQ(++inside, 1);
          EXPECT_LT(last_, lease->fencing_token());
          last_ = lease->fencing_token();
          --inside;
          EXPECT_TRUE(lease->Release().ok());
        }
      });
    }
    for (std::thread& each : threads) each.join();
  }

  support::Authority authority_;
  const std::unique_ptr<support::ClusterGroup> cluster_ = support::ClusterGroup::Start();
  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start(
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
    const absl::StatusOr<Lease> lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(
        Await([&] { return IsHeldAtTheCluster() && IsHeldAtTheServer() && IsHeldAtThePrimary(); }));
  }
  EXPECT_TRUE(Await(
      [&] { return !IsHeldAtTheCluster() && !IsHeldAtTheServer() && !IsHeldAtThePrimary(); }));
  TakeTurns();
}

TEST_F(MembersOfAQuorum, AnyOneOfThemMayBeGone) {
  TakeTurns();
  server_->Stop();
  TakeTurns();
  server_->Continue();
  const size_t primary = *sentinels_->Primary();
  sentinels_->server(primary).Stop();
  TakeTurns();
  sentinels_->server(primary).Continue();
}

TEST_F(MembersOfAQuorum, ASlotMovesUnderAHoldAndThePrimaryChanges) {
  RedLock lock(one_, kMembersName, {.lease = absl::Seconds(3)});
  absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(
      Await([&] { return IsHeldAtTheCluster() && IsHeldAtTheServer() && IsHeldAtThePrimary(); }));
  const redis::Slot slot = redis::SlotOf(kMembersName);
  cluster_->Move(slot, (*cluster_->OwnerOf(slot) + 1) % cluster_->servers());
  const size_t old = *sentinels_->Primary();
  sentinels_->server(old).Kill();
  sentinels_->AwaitPrimaryOtherThan(old);
  // It is renewed there, and healed where the failover has lost it.
  EXPECT_TRUE(Await([&] { return IsHeldAtThePrimary(); }, absl::Seconds(5)));
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(lease->Release().ok());
  EXPECT_TRUE(Await(
      [&] { return !IsHeldAtTheCluster() && !IsHeldAtTheServer() && !IsHeldAtThePrimary(); }));
  TakeTurns();
}

}  // namespace
}  // namespace redlatch
