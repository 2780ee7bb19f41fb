// How long it takes to hand a lock over whose slot was moved while it was held and waited for,
// against one whose slot stayed: from the release to the return of who waits.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/redis/wire/slot.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using support::Await;
using support::ClusterGroup;

constexpr absl::Duration kHandOverPatience = absl::Seconds(20);
constexpr char kName[] = "moved";

absl::Duration Median(std::vector<absl::Duration> all) {
  std::sort(all.begin(), all.end());
  return all.at(all.size() / 2);
}

class ClusterHandOver : public ::testing::Test {
 protected:
  // `meanwhile`: between the waiter's coming and the release.
  absl::Duration HandOver(const std::function<void()>& meanwhile) {
    absl::StatusOr<Lease> held = holders_.Acquire({.wait = kHandOverPatience});
    EXPECT_TRUE(held.ok()) << held.status();
    absl::StatusOr<Lease> taken;
    base::Instant returned;
    std::thread waiter([&] {
      taken = waiters_.Acquire({.wait = kHandOverPatience});
      returned = base::Now();
    });
    const std::string queue = absl::StrCat("redlatch:2:{", kName, "}:simple.queue");
    EXPECT_TRUE(Await([&] { return group_->CommandAt(kName, {"ZCARD", queue}).integer == 1; }));
    meanwhile();
    const base::Instant released = base::Now();
    const absl::Status status = held->Release();
    EXPECT_TRUE(status.ok()) << status;
    waiter.join();
    EXPECT_TRUE(taken.ok()) << taken.status();
    EXPECT_TRUE(taken->Release().ok());
    return returned - released;
  }

  void Move() { group_->Move(slot_, (*group_->OwnerOf(slot_) + 1) % group_->servers()); }
  // Until the waiter hears what is said where its slot is, and no node syncs its nodes.conf.
  void AwaitHeard() {
    const std::string channels = absl::StrCat("redlatch:", redis::TagOf(slot_), ":*");
    EXPECT_TRUE(Await([&] {
      // The holder's, who has waited as well, and the waiter's.
      return group_->CommandAt(kName, {"PUBSUB", "SHARDCHANNELS", channels}).elements.size() == 2 &&
             group_->OfOneEpoch();
    }));
  }
  // One whose node was just given another slot.
  absl::Duration HandOverBeside() {
    const auto other = static_cast<redis::Slot>(slot_ + 1);
    const size_t here = *group_->OwnerOf(slot_);
    group_->Move(other, (here + 1) % group_->servers());
    return HandOver([&] { group_->Move(other, here); });
  }
  absl::Duration RoundTrip() const {
    std::vector<absl::Duration> all;
    for (int i = 0; i < 100; ++i) all.push_back(*holder_.Ping());
    return Median(std::move(all));
  }

  const redis::Slot slot_ = redis::SlotOf(kName);
  const std::unique_ptr<ClusterGroup> group_ = ClusterGroup::Start();
  const Client holder_ = *Client::Connect(group_->url());
  const Client waiter_ = *Client::Connect(group_->url());
  SimpleLock holders_{holder_, kName};
  SimpleLock waiters_{waiter_, kName};
};

TEST_F(ClusterHandOver, OfALockWhoseSlotHasMovedIsNoSlowerThanTwoOthers) {
  const int rounds = support::FullBars() ? 100 : 20;
  // Everybody knows every node.
  for (size_t i = 0; i < 2 * group_->servers(); ++i) HandOver([&] { Move(); });
  std::vector<absl::Duration> stayed;
  std::vector<absl::Duration> moved;
  std::vector<absl::Duration> heard;
  std::vector<absl::Duration> beside;
  for (int i = 0; i < rounds; ++i) {
    stayed.push_back(HandOver([] {}));
    moved.push_back(HandOver([&] { Move(); }));
    heard.push_back(HandOver([&] {
      Move();
      AwaitHeard();
    }));
    beside.push_back(HandOverBeside());
  }
  const absl::Duration round_trip = RoundTrip();
  const auto micros = [](absl::Duration time) { return absl::ToDoubleMicroseconds(time); };
  const auto print = [&](std::string_view what, const std::vector<absl::Duration>& all) {
    std::printf("%-44s %6.0f us, the longest %6.0f us\n", std::string(what).c_str(),
                micros(Median(all)), micros(*std::max_element(all.begin(), all.end())));
  };
  std::printf("medians of %d hand-overs; a round trip takes %.0f us\n", rounds, micros(round_trip));
  print("undisturbed:", stayed);
  print("the slot has moved, and the waiter hears:", heard);
  print("the slot has just moved:", moved);
  print("another slot has just moved to its node:", beside);
  const absl::Duration bar = support::FullBars() ? 2 * Median(stayed) + round_trip
                                                 : 5 * Median(stayed) + absl::Milliseconds(10);
  EXPECT_LE(Median(heard), bar);
  EXPECT_LE(Median(moved), bar);
}

}  // namespace
}  // namespace redlatch
