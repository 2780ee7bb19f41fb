// The code of recipes/testing.md: the program under test, its fixture and its tests.

// [inventory]
#include <functional>
#include <string>

#include "redlatch/simple_lock.h"

class Inventory {
 public:
  explicit Inventory(const redlatch::Client& client) : client_(client) {}

  // Changes the stock step by step, as long as this process has the lock.
  absl::Status Recount(const std::string& item,
                       const std::function<void(const redlatch::Hold&)>& step) {
    redlatch::SimpleLock lock(client_, "item:" + item);
    absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Milliseconds(200)});
    if (!lease.ok()) return lease.status();
    for (int i = 0; i < 3 && lease->valid(); ++i) {
      step(lease->hold());
      ++steps_;
    }
    return lease->Release();
  }
  int steps() const { return steps_; }

 private:
  redlatch::Client client_;
  int steps_ = 0;
};
// [/inventory]

// [fixture]
#include <string>

#include "gtest/gtest.h"
#include "redlatch/client.h"

class InventoryTest : public testing::Test {
 protected:
  // The first call starts a private server, which ends by itself some time after the last client.
  // All tests of this user share it, so each test gets locks of its own by a prefix.
  redlatch::Client NewClient() {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    absl::StatusOr<redlatch::Client> client =
        redlatch::Client::Connect("embedded:", {.key_prefix = test + ":"});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  redlatch::Client ours_ = NewClient();
  redlatch::Client theirs_ = NewClient();  // stands for another process
};
// [/fixture]

// [tests]
#include <future>
#include <stop_token>

TEST_F(InventoryTest, RecountFailsWhileAnotherProcessHasTheItem) {
  redlatch::SimpleLock lock(theirs_, "item:apples");
  const absl::StatusOr<redlatch::Lease> lease = lock.TryAcquire();
  ASSERT_TRUE(lease.ok()) << lease.status();

  Inventory inventory(ours_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(inventory.Recount("apples", {})));
  EXPECT_EQ(inventory.steps(), 0);
}

TEST_F(InventoryTest, RecountStopsWhenTheLockIsLost) {
  Inventory inventory(ours_);
  redlatch::SimpleLock lock(theirs_, "item:apples");
  const absl::Status result = inventory.Recount("apples", [&](const redlatch::Hold& hold) {
    std::promise<void> told;
    const std::stop_callback tell(hold.lost(), [&] { told.set_value(); });
    EXPECT_TRUE(lock.ForceRelease().ok());
    told.get_future().wait();
  });
  EXPECT_TRUE(absl::IsAborted(result)) << result;
  EXPECT_EQ(inventory.steps(), 1);
}
// [/tests]
