// Threads of several clients use every kind of lock on a real cluster. Meanwhile every slot moves
// to another primary and back (a sixth of the slots unless REDLATCH_FULL_BARS=1), and primaries are
// replaced.
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kLoadTimeout = absl::Seconds(60);
constexpr size_t kPrimaries = 3;
constexpr int kLoadClients = 3;
constexpr size_t kNames = 6;  // per kind
constexpr int64_t kPlaces = 3;
constexpr int64_t kCounts = 1'000'000;  // more than the test reaches
const size_t kOneOf = support::FullBars() ? 1 : 6;

class ClusterLoad : public ::testing::Test {
 protected:
  void Begin(const LockOptions& options) {
    for (int i = 0; i < kLoadClients; ++i) {
      const Client client = Connect(group_->url(), {.observer = std::make_shared<Losses>(*this)});
      Work([=, this](size_t name) {
        SimpleLock lock(client, absl::StrCat("simple:", name), options);
        Hold(lock.Acquire({.wait = kLoadTimeout}), simple_[name], 1, 1);
      });
      Work([=, this](size_t name) {
        ReentrantReadWriteLock lock(client, absl::StrCat("read_write:", name), options);
        Hold(lock.AcquireRead({.wait = kLoadTimeout}), read_write_[name], 1, kLoadClients);
        Hold(lock.AcquireWrite({.wait = kLoadTimeout}), read_write_[name], kLoadClients,
             kLoadClients);
      });
      Work([=, this](size_t name) {
        Semaphore semaphore(client, absl::StrCat("semaphore:", name), kPlaces);
        Hold(semaphore.Acquire(2, {.wait = kLoadTimeout}), semaphores_[name], 2, kPlaces);
      });
      Work([=, this](size_t name) {
        const absl::Status counted =
            CountDownLatch(client, absl::StrCat("latch:", name), kCounts).CountDown();
        EXPECT_TRUE(counted.ok()) << counted;
        ++counted_[name];
      });
    }
    AwaitAll();
  }

  // Waits until every thread has used all names of its kind once more.
  void AwaitAll() {
    for (const std::atomic<size_t>& each : rounds_) {
      const size_t enough = each + kNames + 1;
      EXPECT_TRUE(Await([&] { return each >= enough; }, kLoadTimeout)) << "a thread is stuck";
    }
  }

  void MoveSlotsAndBack() {
    constexpr size_t kAtOnce = 256;
    for (const size_t by : {1, 0}) {
      for (size_t first = 0; first < redis::kSlots; first += kAtOnce * kOneOf) {
        const size_t home = first * kPrimaries / redis::kSlots;
        moved_ += group_->MoveRange(static_cast<redis::Slot>(first),
                                    static_cast<redis::Slot>(first + kAtOnce - 1),
                                    (home + by) % kPrimaries);
      }
      AwaitAll();
    }
  }

  // The replica of that primary takes over.
  void StepsDown(size_t primary) {
    RedisServer& replica = group_->server(primary + kPrimaries);
    EXPECT_EQ(replica.Text({"CLUSTER", "FAILOVER"}), "OK");
    ASSERT_TRUE(replica.AwaitInfo("role", "master", kLoadTimeout));
    AwaitAll();
    ASSERT_TRUE(group_->AwaitWell());
  }
  void Dies(size_t primary) {
    may_lose_ = true;
    group_->server(primary).Kill();
    ASSERT_TRUE(group_->server(primary + kPrimaries).AwaitInfo("role", "master", kLoadTimeout));
    AwaitAll();
    group_->server(primary).Restart();
    ASSERT_TRUE(group_->AwaitWell());
    AwaitAll();
  }

  // No count was lost, and nothing is left held.
  void End() {
    threads_.clear();
    const Client client = Connect(group_->url());
    for (size_t i = 0; i < kNames; ++i) {
      CountDownLatch latch(client, absl::StrCat("latch:", i), kCounts);
      EXPECT_TRUE(Await([&] { return latch.Count().value_or(0) == kCounts - counted_[i]; })) << i;
      const AcquireOptions patient = {.wait = kLoadTimeout};
      EXPECT_TRUE(SimpleLock(client, absl::StrCat("simple:", i)).Acquire(patient).ok());
      EXPECT_TRUE(
          Semaphore(client, absl::StrCat("semaphore:", i), kPlaces).Acquire(kPlaces, patient).ok());
    }
  }

  size_t moved_ = 0;

 private:
  struct Object {
    std::atomic<int64_t> used{0};
    std::atomic<uint64_t> last_token{0};
  };
  class Losses : public Observer {
   public:
    explicit Losses(const ClusterLoad& load) : load_(load) {}
    void OnLost(const LostLease& lost) override {
      EXPECT_TRUE(load_.may_lose_) << lost.lock << " was lost: " << lost.reason;
    }

   private:
    const ClusterLoad& load_;
  };

  void Work(std::function<void(size_t name)> round) {
    threads_.emplace_back(
        [round = std::move(round), &rounds = rounds_.emplace_back()](const std::stop_token& stop) {
          // The pauses limit the load.
          for (; !stop.stop_requested(); Sleep(absl::Milliseconds(2))) round(rounds++ % kNames);
        });
  }
  template <class Handle>
  void Hold(absl::StatusOr<Handle> held, Object& object, int64_t amount, int64_t most) {
    ASSERT_TRUE(held.ok()) << held.status();
    const int64_t used = object.used += amount;
    EXPECT_TRUE(used <= most || may_lose_) << used;
    if constexpr (requires { held->fencing_token(); }) {
      if (amount == most) {
        EXPECT_LT(object.last_token.exchange(held->fencing_token().value()),
                  held->fencing_token().value());
      }
    }
    Sleep(absl::Milliseconds(1));  // another holder would be seen meanwhile
    object.used -= amount;
    const absl::Status released = held->Release();
    EXPECT_TRUE(released.ok() || may_lose_) << released;
  }

  const std::unique_ptr<ClusterGroup> group_ =
      ClusterGroup::Start({.primaries = kPrimaries, .replicas = 1});
  std::atomic<bool> may_lose_ = false;
  Object simple_[kNames], read_write_[kNames], semaphores_[kNames];
  std::atomic<int64_t> counted_[kNames] = {};
  std::deque<std::atomic<size_t>> rounds_;
  std::vector<std::jthread> threads_;
};

TEST_F(ClusterLoad, SurvivesMovedSlotsAndFailovers) {
  Begin({});
  MoveSlotsAndBack();
  EXPECT_GE(moved_, redis::kSlots / kOneOf);
  StepsDown(0);
  Dies(1);
  End();
}

TEST_F(ClusterLoad, ReplicasConfirmDuringMovesAndFailover) {
  Begin({.acks = {.replicas = 1, .timeout = absl::Seconds(10)}});
  MoveSlotsAndBack();
  StepsDown(2);
  End();
}

}  // namespace
}  // namespace redlatch
