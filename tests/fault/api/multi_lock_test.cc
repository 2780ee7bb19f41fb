// Who waits for several names, and dies or is frozen: others get each of them.
#include "redlatch/multi_lock.h"

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/lock_keys.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"
#include "tests/support/subprocess.h"

namespace redlatch {
namespace {

constexpr absl::Duration kMultiPatience = absl::Seconds(20);
constexpr absl::Duration kClaim = absl::Seconds(2);

REDLATCH_CHILD(WaitsForThree) {
  MultiLock lock(*Client::Connect(args.at(0)), {"a", "b", "c"});
  const auto lease = lock.Acquire();
  parent.WriteLine(lease.ok() ? "held" : lease.status().ToString());
  (void)parent.ReadLine(absl::Hours(1));
  return 0;
}

class MultiLockFault : public ::testing::Test {
 protected:
  bool AwaitQueued(const std::string& name, int64_t waiters) {
    const std::string queue = support::AuxiliaryKey(name, "simple.queue");
    return support::Await([&] { return server_->Integer({"ZCARD", queue}) == waiters; });
  }
  // Behind a child that heads three queues somebody waits at each; `b` alone is held.
  void Queue() {
    held_ = SimpleLock(client_, "b").Acquire();
    ASSERT_TRUE(held_.ok());
    child_ = support::SpawnChild("WaitsForThree", {server_->url()});
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(AwaitQueued(name, 1));
    for (size_t i = 0; i < others_.size(); ++i) {
      others_[i] = std::thread([this, i] {
        const Client client = *Client::Connect(server_->url());
        SimpleLock lock(client, std::string(1, static_cast<char>('a' + i)));
        const auto lease = lock.Acquire({.wait = kMultiPatience});
        EXPECT_TRUE(lease.ok()) << lease.status();
        got_[i] = base::Now();
      });
    }
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(AwaitQueued(name, 2));
  }
  void Join() {
    for (std::thread& other : others_) other.join();
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const Client client_ = *Client::Connect(server_->url());
  absl::StatusOr<Lease> held_;
  std::unique_ptr<support::Child> child_;
  std::array<std::thread, 3> others_;
  std::array<base::Instant, 3> got_;
};

TEST_F(MultiLockFault, OneThatDiesAtTheHeadOfThreeQueuesKeepsNobodyWaiting) {
  redis::Punctuality punctuality;
  Queue();
  child_->Kill();
  const base::Instant death = base::Now();
  EXPECT_TRUE(held_->Release().ok());
  Join();
  // The names that were free all the time: somebody looks after it once per claim.
  for (const base::Instant got : got_) punctuality.Note(death + kClaim, got);
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(500)));
}

TEST_F(MultiLockFault, OneThatIsFrozenThereKeepsOthersWaitingForTwoClaims) {
  redis::Punctuality punctuality;
  Queue();
  child_->Stop();
  const base::Instant frozen = base::Now();
  EXPECT_TRUE(held_->Release().ok());
  Join();
  EXPECT_LE(got_[1] - frozen, kClaim + absl::Milliseconds(500)) << "it was asked at once";
  for (const base::Instant got : got_) punctuality.Note(frozen + 2 * kClaim, got);
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(500)));
  child_->Continue();
  EXPECT_EQ(child_->pipe().ReadLine(kMultiPatience), "held") << "it returns to its place";
}

TEST_F(MultiLockFault, OneThatDiesWithAllOfThemHoldsThemForItsLease) {
  MultiLock lock(client_, {"a", "b", "c"}, {.lease = absl::Seconds(2)});
  child_ = support::SpawnChild("WaitsForThree", {server_->url()});
  ASSERT_EQ(child_->pipe().ReadLine(kMultiPatience), "held");
  child_->Kill();
  for (const char* name : {"a", "b", "c"}) server_->Command({"PEXPIRE", name, "300"});
  const auto lease = lock.Acquire({.wait = kMultiPatience});
  EXPECT_TRUE(lease.ok()) << lease.status();
}

}  // namespace
}  // namespace redlatch
