// Processes that use every kind of lock while every slot of their cluster is moved to another
// primary and back, and then each primary steps down once and dies once. Unless
// REDLATCH_FULL_BARS=1: a sixth of the slots, and one primary.
#include "tests/fault/api/cluster_load.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/semaphore.h"
#include "src/base/clock.h"
#include "src/redis/wire/slot.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/child_entry.h"
#include "tests/support/cluster_group.h"
#include "tests/support/history_checker.h"
#include "tests/support/lock_history.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using load::kLatches;
using load::kPatience;
using support::Acquisition;
using support::ClusterGroup;
using support::History;

constexpr size_t kProcesses = 8;
constexpr size_t kPrimaries = 3;
constexpr size_t kShare = redis::kSlots / kPrimaries + 1;  // slots of each, or one less
constexpr size_t kSlotsAtOnce = 256;
const size_t kOneOf = support::FullBars() ? 1 : 6;  // of so many slots is moved
// How long a primary goes on whose replica is gone, and what is held is kept afterwards.
constexpr absl::Duration kUnseen = absl::Milliseconds(200);

REDLATCH_CHILD(LoadWorker) { return load::RunLoad(parent, args); }

class ClusterLoad : public ::testing::Test {
 protected:
  void Begin(int acks) {
    for (size_t i = 0; i < kProcesses; ++i) {
      paths_.push_back(absl::StrCat(directory_.path(), "/", i));
      crew_.push_back(support::SpawnChild(
          "LoadWorker", {group_->url(), paths_.back(), absl::StrCat(i), absl::StrCat(acks)}));
    }
    AwaitAll();
  }

  void Tell(const std::string& line) {
    for (const auto& child : crew_) child->pipe().WriteLine(line);
  }
  // Each thread of each process uses each of the shared locks of its kind.
  void AwaitAll() {
    Tell("all");
    for (const auto& child : crew_) {
      EXPECT_EQ(child->pipe().ReadLine(3 * kPatience), "all");
    }
  }

  // Every slot (or a sixth of them), to the next primary and back. All primaries give in turn: one
  // that has given its last slot becomes a replica.
  void MoveAllSlots() {
    const base::Instant begun = base::Now();
    size_t moved = 0;
    for (const size_t by : {1, 0}) {
      for (size_t from = 0; from < kShare; from += kSlotsAtOnce * kOneOf) {
        for (size_t home = 0; home < kPrimaries; ++home) {
          const size_t first = redis::kSlots * home / kPrimaries;
          const size_t next = redis::kSlots * (home + 1) / kPrimaries;
          const size_t end = std::min(next, first + from + kSlotsAtOnce);
          moved += group_->MoveRange(static_cast<redis::Slot>(first + from),
                                     static_cast<redis::Slot>(end - 1), (home + by) % kPrimaries);
        }
      }
      AwaitAll();
    }
    EXPECT_GE(moved, size_t{2} * redis::kSlots / kOneOf);
    std::printf("%zu moves of slots in %.1f s\n", moved,
                absl::ToDoubleSeconds(base::Now() - begun));
  }

  // Returns the one that is the shard's primary then.
  size_t Replica(size_t shard) { return primary_[shard] == shard ? shard + kPrimaries : shard; }
  void StepsDown(size_t shard) {
    const size_t next = Replica(shard);
    const base::Instant begun = base::Now();
    EXPECT_EQ(group_->server(next).Text({"CLUSTER", "FAILOVER"}), "OK");
    ASSERT_TRUE(group_->server(next).AwaitInfo("role", "master", kPatience));
    Replaced(shard, next, begun);
    ASSERT_TRUE(group_->AwaitWell());
  }
  // The latest writes are lost with it. One that comes back before all go on confirms as a replica.
  void Dies(size_t shard, bool comes_back_first) {
    const size_t old = primary_[shard];
    const size_t next = Replica(shard);
    group_->server(next).Stop();
    group_->server(old).Do({"CLIENT", "KILL", "TYPE", "replica"});
    Tell("keep");
    soak::Pass(kUnseen);
    const base::Instant begun = base::Now();
    group_->server(old).Kill();
    group_->server(next).Continue();
    ASSERT_TRUE(group_->server(next).AwaitInfo("role", "master", kPatience));
    soak::Pass(kUnseen);
    if (comes_back_first) group_->server(old).Restart();
    Tell("go on");
    Replaced(shard, next, begun);
    if (!comes_back_first) group_->server(old).Restart();
    ASSERT_TRUE(group_->AwaitWell());
    AwaitAll();
  }
  void Replaced(size_t shard, size_t next, base::Instant begun) {
    const base::Instant answers = base::Now();
    AwaitAll();
    std::printf("server %zu was replaced in %.2f s; all had used all locks %.2f s later\n",
                primary_[shard], absl::ToDoubleSeconds(answers - begun),
                absl::ToDoubleSeconds(base::Now() - answers));
    primary_[shard] = next;
  }

  // All end, and what they have counted is there; nothing is left held.
  void End() {
    Tell("stop");
    std::array<int64_t, kLatches> arrived{};
    std::array<int64_t, kLatches> of_partner{};
    int64_t refused = 0;
    int64_t unreleased = 0;
    for (size_t i = 0; i < kProcesses; ++i) {
      std::istringstream words(crew_[i]->pipe().ReadLine(3 * kPatience).value_or(""));
      std::array<int64_t, kLatches> counted{};
      for (int64_t& each : counted) words >> each;
      int64_t its_refused = 0;
      int64_t its_unreleased = 0;
      words >> its_refused >> its_unreleased;
      EXPECT_TRUE(words) << "process " << i << " does not end";
      refused += its_refused;
      unreleased += its_unreleased;
      for (size_t k = 0; k < kLatches; ++k) {
        if (i % 2 == 1) arrived[k] += std::max(counted[k], of_partner[k]);
      }
      of_partner = counted;
    }
    std::printf("%lld calls were refused, %lld releases had no answer\n",
                static_cast<long long>(refused), static_cast<long long>(unreleased));
    ExpectLatchesAt(arrived);
    for (size_t i = 0; i < kProcesses; ++i) {
      const auto status = crew_[i]->WaitFor(2 * kPatience);
      EXPECT_TRUE(status && status->success()) << "process " << i;
    }
    for (int i = 0; i < load::kShared; ++i) {
      Semaphore semaphore(client_, load::SemaphoreName(i), load::kCapacity);
      const auto all = semaphore.Acquire(load::kCapacity, {.wait = absl::Seconds(5)});
      EXPECT_TRUE(all.ok()) << semaphore.name() << ": " << all.status();
    }
    Read();
  }
  void ExpectLatchesAt(const std::array<int64_t, kLatches>& arrived) {
    for (size_t i = 0; i < kLatches; ++i) {
      CountDownLatch latch(client_, load::LatchName(i), load::kArrivals);
      const absl::StatusOr<int64_t> left = latch.Count();
      ASSERT_TRUE(left.ok()) << left.status();
      EXPECT_EQ(load::kArrivals - *left, arrived[i]) << latch.name();
      EXPECT_GT(arrived[i], 0) << latch.name();
      EXPECT_TRUE(latch.CountDown(*left).ok());
    }
  }

  void Read() {
    absl::Duration longest;
    for (const std::string& path : paths_) {
      for (const Acquisition& one : support::ReadHistory(path)) {
        EXPECT_NE(one.outcome, Acquisition::Outcome::kUnknown);
        longest = std::max(longest, one.returned - one.invoked);
        (one.lock < load::kFirstSimple ? permits_ : locks_).acquisitions.push_back(one);
      }
    }
    if (support::FullBars()) {
      EXPECT_LE(longest, absl::Seconds(10)) << "a heartbeat found out, and no message";
    }
    std::printf("%zu acquisitions of locks, %zu of permits; the longest took %.2f s\n",
                locks_.acquisitions.size(), permits_.acquisitions.size(),
                absl::ToDoubleSeconds(longest));
  }
  static History Before(const History& history, base::Instant end) {
    History before = history;
    std::erase_if(before.acquisitions, [&](const Acquisition& one) { return end <= one.returned; });
    return before;
  }
  static std::vector<std::string> CheckPermits(const History& history) {
    return support::CheckCapacity(history, std::vector<int>(load::kShared, load::kCapacity));
  }
  static History OfWriters(History history) {
    std::erase_if(history.acquisitions, [](const Acquisition& one) { return one.shared; });
    return history;
  }
  static void Print(const char* what, const std::vector<std::string>& all) {
    std::printf("%zu overlaps of %s\n", all.size(), what);
    for (const std::string& each : all) std::printf("  %s\n", each.c_str());
  }

  const size_t failovers_ = support::FullBars() ? kPrimaries : 1;
  const support::TempDir directory_;
  const std::unique_ptr<ClusterGroup> group_ =
      ClusterGroup::Start({.primaries = kPrimaries, .replicas = 1});
  const Client client_ = *Client::Connect(group_->url());
  std::array<size_t, kPrimaries> primary_ = {0, 1, 2};
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<support::Child>> crew_;
  History locks_;
  History permits_;
};

TEST_F(ClusterLoad, OnlyTheDeathOfAPrimaryMayLetTwoHoldAndNobodyGetsAnError) {
  Begin(/*acks=*/0);
  MoveAllSlots();
  for (size_t i = 0; i < failovers_; ++i) StepsDown(i);
  Tell("lose");
  AwaitAll();
  const base::Instant deaths = base::Now();
  for (size_t i = 0; i < failovers_; ++i) Dies(i, /*comes_back_first=*/false);
  End();
  soak::Report("two hold", support::CheckExclusion(Before(locks_, deaths)));
  soak::Report("permits", CheckPermits(Before(permits_, deaths)));
  soak::Report("tokens", support::CheckTokens(Before(locks_, deaths)));
  // What a death has lost: the latest writes, by which readers have their token.
  Print("locks by deaths", support::CheckExclusion(locks_));
  Print("permits by deaths", CheckPermits(permits_));
  soak::Report("tokens", support::CheckTokens(OfWriters(locks_)));
}

TEST_F(ClusterLoad, ReplicasConfirmWhileSlotsMoveAndUntilTheirPrimaryStepsDown) {
  Begin(/*acks=*/1);
  MoveAllSlots();
  Tell("lose");
  AwaitAll();
  for (size_t i = 0; i < kPrimaries; ++i) StepsDown(i);
  End();
  soak::Report("two hold", support::CheckExclusion(locks_));
  soak::Report("tokens", support::CheckTokens(locks_));
}

TEST_F(ClusterLoad, WhatAReplicaHasConfirmedNoDeathTakesAway) {
  Begin(/*acks=*/1);
  Tell("lose");
  AwaitAll();
  for (size_t i = 0; i < failovers_; ++i) Dies(i, /*comes_back_first=*/true);
  End();
  soak::Report("two hold", support::CheckExclusion(locks_));
  soak::Report("tokens", support::CheckTokens(locks_));
  Print("permits, which no replica confirms,", CheckPermits(permits_));
}

}  // namespace
}  // namespace redlatch
