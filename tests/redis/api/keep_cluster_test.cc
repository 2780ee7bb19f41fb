// Kept locks on a cluster, whose messages go by sharded channels: another client asks for them at
// whichever server has the slot.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/fencing_token.h"
#include "redlatch/observer.h"
#include "redlatch/simple_lock.h"
#include "src/redis/wire/slot.h"
#include "tests/redis/api/cluster_tour.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"

namespace redlatch {
namespace {

using support::Await;
using support::ClusterGroup;
using support::TimeOf;

// Neither a renewal nor the end of a hold can be what others wait for.
const LockOptions kKeptInCluster{.lease = absl::Minutes(5), .keep = absl::Minutes(5)};
// Less than a heartbeat.
constexpr absl::Duration kClusterMoment = absl::Seconds(8);

class CountsLosses : public Observer {
 public:
  void OnLost(const LostLease& lost) override {
    ADD_FAILURE() << lost.lock << " was lost: " << lost.reason;
  }
};

class KeepCluster : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { group_ = ClusterGroup::Start().release(); }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  static bool IsTaken(const std::string& name) {
    return group_->CommandAt(name, {"EXISTS", name}).integer == 1;
  }
  // It stays with its client.
  template <class Lock>
  static void Keep(Lock& lock, const std::string& name) {
    EXPECT_TRUE(Await([&] {
      lock.lock();
      lock.unlock();
      return IsTaken(name);
    }));
  }

  static ClusterGroup* group_;
  const Client client_ =
      *Client::Connect(group_->url(), {.observer = std::make_shared<CountsLosses>()});
  const Client other_ = *Client::Connect(group_->url());
};

ClusterGroup* KeepCluster::group_ = nullptr;

TEST_F(KeepCluster, IdleLocksAreAskedForAtEachPrimary) {
  for (size_t i = 0; i < group_->servers(); ++i) {
    const std::string name = NameAt(*group_, i, "kept");
    SCOPED_TRACE(name);
    SimpleLock lock(client_, name, kKeptInCluster), theirs(other_, name);
    for (int round = 0; round < 3; ++round) {
      Keep(lock, name);
      EXPECT_LT(TimeOf([&] { theirs.lock(); }), kClusterMoment);
      theirs.unlock();
    }
    Keep(lock, name);
    EXPECT_FALSE(theirs.try_lock());
    EXPECT_TRUE(Await([&] { return !IsTaken(name); }, kClusterMoment))
        << "a try calls it back, too";
  }
}

// Nobody could ask for it.
TEST_F(KeepCluster, NothingIsKeptWhileNoMessageArrives) {
  const std::string name = "kept_unheard";
  SimpleLock lock(client_, name, kKeptInCluster);
  Keep(lock, name);
  const auto set_most_clients = [&](const char* most) {
    group_->CommandAt(name, {"CONFIG", "SET", "maxclients", most});
  };
  set_most_clients("1");  // no further connections
  EXPECT_GE(group_->CommandAt(name, {"CLIENT", "KILL", "TYPE", "pubsub"}).integer, 1);
  EXPECT_TRUE(Await([&] { return !IsTaken(name); }, kClusterMoment));
  for (int i = 0; i < 3; ++i) {
    lock.lock();
    lock.unlock();
    EXPECT_TRUE(Await([&] { return !IsTaken(name); }, kClusterMoment));
  }
  set_most_clients("10000");
  Keep(lock, name);
}

}  // namespace
}  // namespace redlatch
