// Processes that use every kind of lock while every slot of their cluster is moved to another
// primary and back, and then each primary steps down once and dies once. Unless
// REDLATCH_FULL_BARS=1: a sixth of the slots, and one primary.
#include "tests/fault/api/cluster_load.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
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
#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_check/history_event.h"
#include "tests/support/history_writer.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using history::Rule;
using history::What;
using load::kLatches;
using support::ClusterGroup;

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
      EXPECT_EQ(child->pipe().ReadLine(3 * load::kPatience), "all");
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
    ASSERT_TRUE(group_->server(next).AwaitInfo("role", "master", load::kPatience));
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
    ASSERT_TRUE(group_->server(next).AwaitInfo("role", "master", load::kPatience));
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
    int64_t refused = 0;
    int64_t unreleased = 0;
    for (const auto& child : crew_) {
      std::istringstream words(child->pipe().ReadLine(3 * load::kPatience).value_or(""));
      int64_t its_refused = 0;
      int64_t its_unreleased = 0;
      words >> its_refused >> its_unreleased;
      EXPECT_TRUE(words) << "a process does not end";
      refused += its_refused;
      unreleased += its_unreleased;
    }
    std::printf("%lld calls were refused, %lld releases had no answer\n",
                static_cast<long long>(refused), static_cast<long long>(unreleased));
    OpenLatches();
    for (size_t i = 0; i < kProcesses; ++i) {
      const auto status = crew_[i]->WaitFor(2 * load::kPatience);
      EXPECT_TRUE(status && status->success()) << "process " << i;
    }
    for (int i = 0; i < load::kShared; ++i) {
      Semaphore semaphore(client_, load::SemaphoreName(i), load::kCapacity);
      const auto all = semaphore.Acquire(load::kCapacity, {.wait = absl::Seconds(5)});
      EXPECT_TRUE(all.ok()) << semaphore.name() << ": " << all.status();
    }
    Read();
  }
  // Reads what has been counted, and counts the rest.
  void OpenLatches() {
    support::HistoryWriter notes(paths_.emplace_back(directory_.path() + "/parent"), -1);
    for (size_t i = 0; i < kLatches; ++i) {
      CountDownLatch latch(client_, load::LatchName(i), load::kArrivals);
      const uint32_t read = notes.Begin({.what = What::kRead, .objects = latch.name()});
      const absl::StatusOr<int64_t> left = latch.Count();
      ASSERT_TRUE(left.ok()) << left.status();
      EXPECT_LT(*left, load::kArrivals) << latch.name();
      notes.Note(read, {.what = What::kOk, .amount = *left});
      const uint32_t rest =
          notes.Begin({.what = What::kCount, .objects = latch.name(), .amount = *left});
      EXPECT_TRUE(latch.CountDown(*left).ok());
      notes.Note(rest, {.what = What::kOk});
    }
  }

  void Read() {
    history_ = *history::ReadHistory(paths_);
    std::map<absl::string_view, int64_t> open;
    int64_t longest_ns = 0;
    for (const history::HistoryEvent& event : history_.events) {
      if (event.what == What::kAcquire) open[event.call] = event.time;
      const auto ended = event.what <= What::kUnknown ? open.find(event.call) : open.end();
      if (event.what < What::kOk || ended == open.end()) continue;
      longest_ns = std::max(longest_ns, event.time - ended->second);
      open.erase(ended);
    }
    EXPECT_TRUE(open.empty()) << open.begin()->first;
    if (support::FullBars()) {
      EXPECT_LE(longest_ns, 10'000'000'000) << "a heartbeat found out, and no message";
    }
    std::printf("%zu events; the longest acquisition took %.2f s\n", history_.events.size(),
                static_cast<double>(longest_ns) / 1e9);
  }

  const size_t failovers_ = support::FullBars() ? kPrimaries : 1;
  const support::TempDir directory_;
  const std::unique_ptr<ClusterGroup> group_ =
      ClusterGroup::Start({.primaries = kPrimaries, .replicas = 1});
  const Client client_ = *Client::Connect(group_->url());
  std::array<size_t, kPrimaries> primary_ = {0, 1, 2};
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<support::Child>> crew_;
  history::History history_;
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
  soak::ExpectTrue(history_, [&](const history::Violation& violation) {
    // A death loses the latest writes, by which readers have their token.
    return deaths.nanos() <= violation.time &&
           (violation.rule == Rule::kExclusion || violation.rule == Rule::kCapacity ||
            violation.rule == Rule::kReadTokens);
  });
}

TEST_F(ClusterLoad, ReplicasConfirmWhileSlotsMoveAndUntilTheirPrimaryStepsDown) {
  Begin(/*acks=*/1);
  MoveAllSlots();
  Tell("lose");
  AwaitAll();
  for (size_t i = 0; i < kPrimaries; ++i) StepsDown(i);
  End();
  soak::ExpectTrue(history_);
}

TEST_F(ClusterLoad, WhatAReplicaHasConfirmedNoDeathTakesAway) {
  Begin(/*acks=*/1);
  Tell("lose");
  AwaitAll();
  for (size_t i = 0; i < failovers_; ++i) Dies(i, /*comes_back_first=*/true);
  End();
  soak::ExpectTrue(history_, [](const history::Violation& violation) {
    return violation.rule == Rule::kCapacity;  // no replica confirms permits
  });
}

}  // namespace
}  // namespace redlatch
