// RedLocks some of whose servers answer late, or never.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/lock_keys.h"
#include "tests/support/proxied_quorum.h"
#include "tests/support/quorum_group.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using support::Direction;

constexpr char kSlowName[] = "orders:42";
const std::string kSlowQueue = support::AuxiliaryKey(kSlowName, "quorum.queue");
constexpr int kTurns = 100;
// Turns that pass from one to the other on some servers only cost a tenth of a second each.
constexpr absl::Duration kBound = absl::Seconds(3);

class SlowQuorum : public ::testing::Test {
 protected:
  static std::vector<Client> Several(const std::string& url) {
    std::vector<Client> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(Connect(url));
    return clients;
  }

  // Several clients that are after the lock all the time. Answers the longest wait.
  static absl::Duration LongestWait(const std::vector<Client>& clients, int turns) {
    std::atomic<int64_t> longest{0};
    std::atomic<int> inside{0};
    std::vector<std::thread> threads;
    for (const Client& client : clients) {
      threads.emplace_back([&] {
        RedLock lock(client, kSlowName);
        for (int turn = 0; turn < turns; ++turn) {
          const base::Instant asked = base::Now();
          absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(30)});
          const int64_t waited = absl::ToInt64Nanoseconds(base::Now() - asked);
          ASSERT_TRUE(lease.ok()) << lease.status();
          EXPECT_EQ(++inside, 1);
          for (int64_t seen = longest;
               seen < waited && !longest.compare_exchange_weak(seen, waited);) {
          }
          --inside;
          ASSERT_TRUE(lease->Release().ok());
        }
      });
    }
    for (std::thread& each : threads) each.join();
    return absl::Nanoseconds(longest.load());
  }

  support::QuorumGroup servers_;
};

TEST_F(SlowQuorum, TwoThatHangHoldUpNobodyWhoTakesTurns) {
  const std::vector<Client> clients = Several(servers_.url());
  LongestWait(clients, kTurns);  // what this leaves on the others is nobody's turn later on
  servers_[0].Stop();
  servers_[3].Stop();
  EXPECT_LT(LongestWait(clients, kTurns), kBound);
  servers_[0].Continue();
  servers_[3].Continue();
  EXPECT_TRUE(Await([&] { return servers_.Having(kSlowName) == 0; }));
}

// Renewals of the short leases are given up before an answer can come; those of a longer lease must
// not be.
TEST(FarQuorum, LongLeaseIsRenewedBesideShortOnes) {
  support::QuorumGroup servers(3);
  support::ProxiedQuorum far(servers);
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
  const absl::StatusOr<Lease> lease = lock.Acquire();
  EXPECT_TRUE(lease.ok()) << lease.status();
  const auto renewals = [&] {
    for (const auto& each : client.Stats().locks) {
      if (each.name == kSlowName) return each.renewed;
    }
    return uint64_t{0};
  };
  EXPECT_TRUE(Await([&] { return renewals() >= 3 || !lease->valid(); }, absl::Seconds(60)));
  EXPECT_TRUE(lease->valid());
  goes_on = false;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace redlatch
