// Slots that move to and fro under threads that lock there.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/observer.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/redis/wire/slot.h"
#include "tests/support/cluster_group.h"
#include "tests/support/punctuality.h"

namespace redlatch {
namespace {

using support::ClusterGroup;

constexpr int kReshardClients = 3;
constexpr int kTags = 2;
constexpr absl::Duration kReshardPatience = absl::Seconds(20);
constexpr absl::Duration kTime = absl::Seconds(4);
constexpr int kLeastEntries = 100;  // of each tag, which takes longer on a machine that is busy
constexpr absl::Duration kLongestRelease = absl::Seconds(1);

// Nothing is lost while slots only move.
class NoLoss : public Observer {
 public:
  void OnLost(const LostLease& lost) override {
    ADD_FAILURE() << lost.lock << " was lost: " << lost.reason;
  }
};

// Who is inside, as the threads see it.
struct Room {
  std::atomic<int> writers{0};
  std::atomic<int> readers{0};
  std::atomic<int> permits{0};
  std::atomic<int> simple{0};
  std::atomic<uint64_t> latest{0};
  std::atomic<int> entries{0};
};
constexpr int kReshardCapacity = 2;

class ClusterReshard : public ::testing::Test {
 protected:
  static std::string Tag(int tag) { return absl::StrCat("{tag", tag, "}:"); }

  void Simple(const Client& client, int tag) {
    Room& room = rooms_[static_cast<size_t>(tag)];
    SimpleLock lock(client, Tag(tag) + "simple");
    while (!stop_) {
      const uint64_t before = room.latest;
      absl::StatusOr<Lease> lease = lock.Acquire({.wait = kReshardPatience});
      if (!Granted(lease.status())) return;
      EXPECT_EQ(++room.simple, 1);
      EXPECT_GT(lease->fencing_token().value(), before);
      room.latest = std::max<uint64_t>(room.latest, lease->fencing_token().value());
      ++room.entries;
      --room.simple;
      Release(*lease);
    }
  }
  void ReadWrite(const Client& client, int tag, bool write) {
    Room& room = rooms_[static_cast<size_t>(tag)];
    ReentrantReadWriteLock lock(client, Tag(tag) + "read_write");
    while (!stop_) {
      absl::StatusOr<Lease> lease = write ? lock.AcquireWrite({.wait = kReshardPatience})
                                          : lock.AcquireRead({.wait = kReshardPatience});
      if (!Granted(lease.status())) return;
      ++(write ? room.writers : room.readers);
      EXPECT_LE(room.writers, 1);
      if (write) {
        EXPECT_EQ(room.readers, 0);
      }
      ++room.entries;
      --(write ? room.writers : room.readers);
      Release(*lease);
    }
  }
  void Permits(const Client& client, int tag) {
    Room& room = rooms_[static_cast<size_t>(tag)];
    Semaphore semaphore(client, Tag(tag) + "semaphore", kReshardCapacity);
    while (!stop_) {
      absl::StatusOr<Permit> permit = semaphore.Acquire(1, {.wait = kReshardPatience});
      if (!Granted(permit.status())) return;
      EXPECT_LE(++room.permits, kReshardCapacity);
      ++room.entries;
      --room.permits;
      Release(*permit);
    }
  }
  // A server that gets no processor answers late, and a release does not wait in a queue: how long
  // it takes shows whether a move kept it waiting.
  template <class Held>
  void Release(Held& held) {
    const base::Instant began = base::Now();
    punctuality_.Note(began);  // what the thread waited for before does not count
    Granted(held.Release());
    punctuality_.Note(began);
  }
  static bool Granted(const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    return status.ok();
  }

  const std::unique_ptr<ClusterGroup> group_ = ClusterGroup::Start();
  const std::shared_ptr<NoLoss> observer_ = std::make_shared<NoLoss>();
  std::vector<Client> clients_;
  std::array<Room, kTags> rooms_;
  std::atomic<bool> stop_{false};
  redis::Punctuality punctuality_;
};

TEST_F(ClusterReshard, NobodyNotices) {
  for (int i = 0; i < kReshardClients; ++i) {
    clients_.push_back(
        *Client::Connect(group_->url() + "?command_timeout=20s", {.observer = observer_}));
  }
  std::vector<std::thread> threads;
  for (int tag = 0; tag < kTags; ++tag) {
    for (int i = 0; i < kReshardClients; ++i) {
      const Client& client = clients_[static_cast<size_t>(i)];
      threads.emplace_back([&, tag] { Simple(client, tag); });
      threads.emplace_back([&, tag, i] { ReadWrite(client, tag, /*write=*/i == 0); });
      threads.emplace_back([&, tag] { Permits(client, tag); });
    }
  }
  const base::Instant end = base::Now() + kTime;
  int moves = 0;
  CountDownLatch latch(clients_[0], Tag(0) + "latch", 1'000'000);
  const auto all_entered = [&] {
    return std::all_of(rooms_.begin(), rooms_.end(),
                       [](const Room& room) { return room.entries > kLeastEntries; });
  };
  while (base::Now() < end || (!all_entered() && base::Now() < end + kReshardPatience)) {
    for (int tag = 0; tag < kTags; ++tag) {
      const redis::Slot slot = redis::SlotOf(Tag(tag));
      group_->Move(slot, (*group_->OwnerOf(slot) + 1) % group_->servers());
      ++moves;
    }
    EXPECT_TRUE(latch.CountDown().ok());
  }
  const absl::StatusOr<int64_t> counted = latch.Count();
  EXPECT_TRUE(counted.ok()) << counted.status();
  if (counted.ok()) {
    EXPECT_EQ(*counted, 1'000'000 - moves / kTags) << "each counts once";
  }
  std::array<int, kTags> entries{};
  for (size_t tag = 0; tag < kTags; ++tag) entries[tag] = rooms_[tag].entries;
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  RecordProperty("moves", moves);
  for (const int each : entries) {
    EXPECT_GT(each, kLeastEntries) << moves << " moves";
  }
  EXPECT_TRUE(punctuality_.Within(kLongestRelease));
  std::printf("%d moves, %d and %d entries\n", moves, entries[0], entries[1]);
}

}  // namespace
}  // namespace redlatch
