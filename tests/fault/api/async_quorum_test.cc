// Acquisitions of a RedLock that no thread waits for, and servers that hang.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/outcomes.h"
#include "tests/support/proxied_quorum.h"
#include "tests/support/quorum_group.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using Leases = support::Outcomes<absl::StatusOr<Lease>>;

constexpr absl::Duration kQuorumLate = absl::Milliseconds(200);  // 50, and a machine that is busy

class AsyncQuorum : public ::testing::Test {
 protected:
  void Hang() {
    servers_[0].Stop();
    servers_[1].Stop();
  }
  void GoOn() {
    servers_[0].Continue();
    servers_[1].Continue();
  }

  support::QuorumGroup servers_{3};
  std::optional<Client> client_ =
      Connect(servers_.url("command_timeout=3s"), {.unreachable_after = absl::Seconds(10)});
  std::optional<RedLock> lock_{std::in_place, *client_, "lock"};
  Leases leases_;
};

// The key of a held lock shows how many rounds it took: "<hold> <attempt>".
TEST(AsyncQuorumRounds, AreNotCutShortByTheShortestDeadline) {
  support::QuorumGroup servers(3);
  support::ProxiedQuorum far(servers);
  const Client client = Connect(far.url());
  RedLock free(client, "free");
  ASSERT_TRUE(free.Acquire().ok());  // the client has met all servers
  for (size_t i = 0; i < servers.size(); ++i) {
    far[i].Delay(support::Direction::kToServer, absl::Milliseconds(30));
    far[i].Delay(support::Direction::kToClient, absl::Milliseconds(30));
  }
  std::atomic<bool> goes_on{true};
  Leases none;
  std::thread hasty([&] {
    std::vector<std::unique_ptr<RedLock>> others;
    for (size_t begun = 1; goes_on; ++begun) {
      others.push_back(std::make_unique<RedLock>(client, absl::StrCat("other:", begun)));
      others.back()->AcquireAsync({.wait = absl::Milliseconds(1)}, none.Callback());
      EXPECT_TRUE(Await([&] { return none.size() + 50 >= begun; }));
    }
  });
  EXPECT_TRUE(none.Await(50));
  for (int round = 0; round < 5; ++round) {
    Leases leases;
    free.AcquireAsync({}, leases.Callback());
    const absl::StatusOr<Lease> lease = leases.Take();
    EXPECT_TRUE(lease.ok()) << lease.status();
    for (size_t i = 0; i < servers.size(); ++i) {
      const std::string vote = servers[i].Text({"GET", "free"});
      if (vote.empty()) continue;  // a minority's vote may still be on its way
      EXPECT_LE(std::stoi(vote.substr(vote.find(' ') + 1)), 2) << vote;
    }
  }
  goes_on = false;
  hasty.join();
}

TEST_F(AsyncQuorum, CallbacksRunThoughARoundWaits) {
  ASSERT_TRUE(lock_->Acquire().ok());
  Hang();
  lock_->AcquireAsync({}, leases_.Callback());
  RedLock bad(*client_, "redlatch:bad");
  Leases refused;
  for (size_t i = 0; i < 20; ++i) {
    const base::Instant began = base::Now();
    bad.AcquireAsync({}, refused.Callback());
    EXPECT_EQ(refused.Take(i).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LE(base::Now() - began, kQuorumLate);
  }
  GoOn();
  EXPECT_TRUE(leases_.Take().ok());
}

}  // namespace
}  // namespace redlatch
