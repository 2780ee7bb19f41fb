// What reaches a server of a RedLock late, over a connection that was given up, changes nothing.
#include <atomic>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
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
using support::Scope;

constexpr char kName[] = "orders:42";
const std::string kFence = support::AuxiliaryKey(kName, "fence");
const std::string kQueue = support::AuxiliaryKey(kName, "quorum.queue");

class LateAtAQuorum : public ::testing::Test {
 protected:
  // Both have used the lock on each server.
  static void WarmUp(RedLock& lock, support::QuorumGroup& servers) {
    const absl::StatusOr<Lease> lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_TRUE(Await([&] { return servers.Having(kName) == servers.size(); }));
  }
  bool IsQueuedAt(size_t i) { return servers_[i].Integer({"ZCARD", kQueue}) == 1; }
  int Clients(size_t i) { return std::stoi(servers_[i].Info("connected_clients")); }

  support::QuorumGroup servers_{3};
  support::ProxiedQuorum proxies_{servers_};  // the one's
  const Client one_ = Connect(proxies_.url());
  const Client other_ = Connect(servers_.url());
  // Its waiters ask again each 200 ms.
  const LockOptions options_ = {.lease = absl::Milliseconds(600)};
  RedLock mine_{one_, kName, options_};
  RedLock theirs_{other_, kName, options_};
};

TEST_F(LateAtAQuorum, AGiveBackTakesNothingFromALaterAttempt) {
  WarmUp(mine_, servers_);
  absl::StatusOr<Lease> held = theirs_.Acquire();
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(Await([&] { return servers_.Having(kName) == 3; }));
  // What is sent to the last server, an attempt and that it is given back, is on its way for long.
  const int64_t accepted = proxies_[2].stats().accepted;
  proxies_[2].Hold(Direction::kToServer, Scope::kExisting);
  std::atomic<bool> release{false};
  std::atomic<bool> got{false};
  std::thread waiter([&] {
    const absl::StatusOr<Lease> lease = mine_.Acquire({.wait = absl::Seconds(20)});
    ASSERT_TRUE(lease.ok()) << lease.status();
    got = true;
    EXPECT_TRUE(Await([&] { return release.load(); }));
    EXPECT_TRUE(lease->valid());
  });
  // Over another connection the waiter is queued there, too.
  EXPECT_TRUE(Await([&] { return proxies_[2].stats().accepted > accepted && IsQueuedAt(2); }));
  servers_[0].Stop();  // so that its majority needs the last one
  EXPECT_TRUE(held->Release().ok());
  EXPECT_TRUE(Await([&] { return got.load(); }));
  const std::string vote = servers_[2].Text({"GET", kName});
  const std::string token = servers_[2].Text({"GET", kFence});
  const int clients = Clients(2);
  proxies_[2].ReleaseHeld();
  // It has read all of the old connection, to the end.
  EXPECT_TRUE(Await([&] { return Clients(2) < clients; }));
  EXPECT_EQ(servers_[2].Text({"GET", kName}), vote);
  EXPECT_EQ(servers_[2].Text({"GET", kFence}), token) << "it was given back, and granted again";
  servers_[0].Continue();
  release = true;
  waiter.join();
}

}  // namespace
}  // namespace redlatch
