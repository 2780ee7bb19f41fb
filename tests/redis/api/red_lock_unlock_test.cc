// A RedLock's unlock() writes the release to all servers, and waits for none: what becomes of it.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/red_lock.h"
#include "tests/redis/api/released.h"
#include "tests/support/connect.h"
#include "tests/support/quorum_fixture.h"

namespace redlatch {
namespace {

using support::Await;
using support::TimeOf;

// What a call may take that does not wait, on a machine that is busy.
constexpr absl::Duration kAtOnce = absl::Milliseconds(200);
// Far less than the lease.
constexpr absl::Duration kUnlockSoon = absl::Seconds(5);

class RedLockUnlock : public support::QuorumFixture {
 protected:
  void SetUp() override {
    lock_.lock();
    ASSERT_TRUE(Await([&] { return servers_.Having(kName) == 5; }));
  }
  bool IsFreeEverywhere(absl::Duration within = kUnlockSoon) {
    return Await([&] { return servers_.Having(kName) == 0; }, within);
  }

  const std::shared_ptr<Released> released_ = std::make_shared<Released>();
  std::optional<Client> client_ = *Client::Connect(proxies_.url(), {.observer = released_});
  RedLock lock_{*client_, kName};
};

TEST_F(RedLockUnlock, DoesNotWaitForServersThatHang) {
  for (size_t i = 0; i < 5; ++i) servers_[i].Stop();
  const absl::Duration took = TimeOf([&] { lock_.unlock(); });
  for (size_t i = 0; i < 5; ++i) servers_[i].Continue();
  EXPECT_LT(took, kAtOnce);
  EXPECT_TRUE(IsFreeEverywhere());
  ASSERT_TRUE(Await([&] { return released_->results().size() == 1; }));
  EXPECT_TRUE(released_->results()[0].ok()) << released_->results()[0];
}

TEST_F(RedLockUnlock, AnObserverHearsThatAMajorityDidNotHaveIt) {
  for (const size_t i : {0, 1, 2}) servers_[i].Do({"DEL", kName});
  for (const size_t i : {3, 4}) servers_[i].Stop();  // they would answer, too, perhaps sooner
  lock_.unlock();
  EXPECT_TRUE(Await([&] { return released_->results().size() == 1; }));
  for (const size_t i : {3, 4}) servers_[i].Continue();
  ASSERT_EQ(released_->results().size(), 1U);
  EXPECT_TRUE(absl::IsAborted(released_->results()[0])) << released_->results()[0];
  EXPECT_TRUE(IsFreeEverywhere());
}

TEST_F(RedLockUnlock, TheLastHandleDoesNotWaitForServersThatHangIfAMajorityHasAnswered) {
  lock_.unlock();
  std::optional<Client> client = support::Connect(servers_.url());
  std::optional<RedLock> lock(std::in_place, *client, kName);
  // Until all have been connected to: a majority was enough to get it, and none can be spared
  // below.
  lock->lock();
  ASSERT_TRUE(Await([&] {
    if (servers_.Having(kName) == servers_.size()) return true;
    lock->unlock();
    lock->lock();
    return false;
  }));
  servers_[0].Stop();
  servers_[1].Stop();
  lock->unlock();
  lock.reset();
  const absl::Duration took = TimeOf([&] { client.reset(); });
  servers_[0].Continue();
  servers_[1].Continue();
  EXPECT_LT(took, absl::Milliseconds(500)) << "the command_timeout is 1 s";
  EXPECT_TRUE(IsFreeEverywhere());
}

TEST_F(RedLockUnlock, AForkedChildHarmsNothing) {
  lock_.unlock();
  for (int i = 0; i < 10; ++i) {
    std::optional<Client> client = support::Connect(servers_.url());
    std::optional<RedLock> lock(std::in_place, *client, kName);
    lock->lock();
    lock->unlock();
    const pid_t child = fork();
    lock.reset();
    client.reset();
    if (child == 0) _exit(0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    ASSERT_TRUE(IsFreeEverywhere(absl::Seconds(2))) << i;
  }
}

}  // namespace
}  // namespace redlatch
