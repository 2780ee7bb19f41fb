// In a cluster each slot has its quarantine: what was promoted, or has come from elsewhere, grants
// nothing until what the one before it can have granted is over.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/lease.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/redis/wire/slot.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"

namespace redlatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using support::Await;
using support::ClusterGroup;

constexpr absl::Duration kShardQuarantine = absl::Seconds(3);
constexpr absl::Duration kShardLease = absl::Seconds(1);  // what min-replicas-max-lag leaves of it
constexpr absl::Duration kShardPatience = absl::Seconds(20);
// Scripts know whole milliseconds, and a margin is on the safe side.
constexpr absl::Duration kShardMargin = absl::Milliseconds(100);
const LockOptions kOptions = {.lease = kShardLease};

class ClusterQuarantine : public ::testing::Test {
 protected:
  static constexpr int kNames = 60;
  static constexpr redis::Slot kFirstSlots[] = {0, redis::kSlots / 3, 2 * redis::kSlots / 3};
  static std::string NameOf(std::string_view what, int i) {
    return absl::StrCat(std::string(what), ":", i);
  }
  Client Connect() { return *Client::Connect(group_->url() + "?quarantine=3s"); }
  static bool IsFree(const Client& client, const std::string& name) {
    return SimpleLock(client, name, kOptions).TryAcquire().ok();
  }
  // How many of those names are granted, of those that that server has.
  void ExpectGrants(const Client& client, std::string_view what, size_t server, bool granted) {
    int asked = 0;
    for (int i = 0; i < kNames; ++i) {
      const std::string name = NameOf(what, i);
      if (group_->OwnerOf(redis::SlotOf(name)) != server) continue;
      EXPECT_EQ(IsFree(client, name), granted) << name;
      ++asked;
    }
    EXPECT_GT(asked, 5);
  }
  static void TakeOnce(const Client& client, const std::string& name) {
    SimpleLock lock(client, name, kOptions);
    EXPECT_TRUE(lock.Acquire({.wait = kShardPatience}).ok());
  }
  // That of the first use is over everywhere.
  void SitOut(const Client& client) {
    for (const redis::Slot first : kFirstSlots) EXPECT_TRUE(AwaitAllBegun(first));
    const base::Instant begun = base::Now();
    EXPECT_TRUE(Await([&] { return base::Now() - begun > kShardQuarantine; }));
    TakeOnce(client, "first");
  }
  bool AwaitAllBegun(redis::Slot first) {
    return Await(
        [&] {
          const std::string key = absl::StrCat("redlatch:", redis::TagOf(first), ":reign.begun");
          const std::string id = group_->CommandAt(key, {"GET", key}).text;
          return !id.empty() && id == group_->server(*group_->OwnerOf(first)).Info("master_replid");
        },
        kShardPatience);
  }
  // The replica of that primary does not hear of it any more.
  void CutOff(size_t replica) {
    group_->server(replica).Do({"CONFIG", "SET", "masterauth", "wrong", "masteruser", "nobody"});
    group_->server(replica).Do({"CLIENT", "KILL", "TYPE", "master"});
    EXPECT_TRUE(group_->server(replica).AwaitInfo("master_link_status", "down"));
  }

  const std::unique_ptr<ClusterGroup> group_ =
      ClusterGroup::Start({.replicas = 1, .server = {.config = {"min-replicas-max-lag 1"}}});
};

TEST_F(ClusterQuarantine, OfTheFirstUseIsOverForAllSlotsAtOnce) {
  const base::Instant begun = base::Now();
  const Client client = Connect();
  EXPECT_TRUE(IsBusy(SimpleLock(client, "first", kOptions).TryAcquire().status()));
  TakeOnce(client, "first");
  EXPECT_GE(base::Now() - begun, kShardQuarantine - kShardMargin);
  EXPECT_LE(base::Now() - begun, kShardQuarantine + absl::Seconds(2));
  // Also where nobody has locked anything so far, and for other clients.
  SitOut(client);
  const Client other = Connect();
  for (size_t server = 0; server < 3; ++server) ExpectGrants(other, "first", server, true);

  // It is the same for all, and longer than a lease.
  const Client differs = *Client::Connect(group_->url() + "?quarantine=4s");
  const absl::Status another = SimpleLock(differs, "lock", kOptions).Acquire().status();
  EXPECT_FALSE(another.ok());
  EXPECT_THAT(std::string(another.message()), AllOf(HasSubstr("4000 ms"), HasSubstr("3000 ms")));
  const absl::Status outlives =
      SimpleLock(client, "lock", {.lease = 1.1 * kShardLease}).Acquire().status();
  EXPECT_EQ(outlives.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(outlives.message()), HasSubstr("could outlive the quarantine"));
}

// The run that overlaps without a quarantine, and with it does not.
TEST_F(ClusterQuarantine, AfterAPromotionWhoeverTheOldPrimaryHasGrantedALockIsAloneWithIt) {
  size_t old = 0;
  for (const bool quarantined : {false, true}) {
    const Client client = quarantined ? Connect() : *Client::Connect(group_->url());
    const std::string name = quarantined ? "quarantined lock" : "plain lock";
    SimpleLock lock(client, name, kOptions);
    TakeOnce(client, name);
    old = *group_->OwnerOf(redis::SlotOf(name));
    ASSERT_LT(old, 3) << "two names at one primary: choose others";
    CutOff(old + 3);
    const absl::Duration duration = quarantined ? kShardLease : 10 * kShardLease;
    const absl::StatusOr<Lease> lost = lock.Acquire({.lease = duration});
    const base::Instant granted = base::Now();
    ASSERT_TRUE(lost.ok()) << lost.status();
    EXPECT_EQ(group_->server(old + 3).Text({"CLUSTER", "FAILOVER", "TAKEOVER"}), "OK");
    EXPECT_TRUE(group_->server(old).AwaitInfo("role", "slave"));
    const Client other = quarantined ? Connect() : *Client::Connect(group_->url());
    SimpleLock others(other, name, kOptions);
    const absl::StatusOr<Lease> lease = others.Acquire({.wait = kShardPatience});
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(base::Now() < granted + duration, !quarantined);
    EXPECT_FALSE(quarantined && lost->valid());
  }
}

TEST_F(ClusterQuarantine, OfAPromotionCountsFromThenForTheWholeShardAndForNoOther) {
  const Client client = Connect();
  SitOut(client);
  for (size_t server = 0; server < 3; ++server) ExpectGrants(client, "before", server, true);
  const base::Instant begun = base::Now();
  EXPECT_EQ(group_->server(3).Text({"CLUSTER", "FAILOVER", "TAKEOVER"}), "OK");
  EXPECT_TRUE(group_->server(0).AwaitInfo("role", "slave"));
  EXPECT_TRUE(group_->AwaitWell());
  ExpectGrants(client, "before", 1, true);
  ExpectGrants(client, "before", 2, true);
  ExpectGrants(client, "at first", 3, false);
  EXPECT_LT(base::Now() - begun, kShardQuarantine - kShardMargin);
  // What nobody asked for in time need not be waited for afterwards.
  EXPECT_TRUE(AwaitAllBegun(kFirstSlots[0]));
  const base::Instant all_begun = base::Now();
  EXPECT_TRUE(Await([&] { return base::Now() - all_begun > kShardQuarantine; }));
  ExpectGrants(client, "afterwards", 3, true);
}

TEST_F(ClusterQuarantine, OfASlotThatHasMovedIsThatSlotsAlone) {
  const Client client = Connect();
  SitOut(client);
  SimpleLock held(client, "{mover}:held", kOptions);
  absl::StatusOr<Lease> lease = held.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  const redis::Slot slot = redis::SlotOf("mover");
  const size_t old = *group_->OwnerOf(slot);
  const size_t now = (old + 1) % 3;
  const base::Instant begun = base::Now();
  group_->Move(slot, now);
  EXPECT_FALSE(IsFree(client, "mover"));
  ExpectGrants(client, "others", now, true);
  TakeOnce(client, "mover");
  EXPECT_GE(base::Now() - begun, kShardQuarantine - kShardMargin);
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(lease->Release().ok());
}

}  // namespace
}  // namespace redlatch
