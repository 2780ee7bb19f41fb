// The server's clock is stepped, forward and back.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/unique_fd.h"
#include "tests/support/await.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace redlatch {
namespace {

using support::Await;

class ServerClock : public ::testing::Test {
 protected:
  ServerClock() {
    EXPECT_EQ(ftruncate(file_.get(), sizeof *shift_), 0);
    shift_ = static_cast<std::atomic<int64_t>*>(
        mmap(nullptr, sizeof *shift_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    server_ = support::RedisServer::Start({.environment = {
                                               "LD_PRELOAD=" REDLATCH_SHIFTED_CLOCK,
                                               "REDLATCH_CLOCK_SHIFT=" + path_,
                                           }});
    client_ = *Client::Connect(server_->url());
  }
  ~ServerClock() override { munmap(shift_, sizeof *shift_); }

  // From what it has been so far.
  void Step(absl::Duration by) {
    const int64_t before = Seconds();
    *shift_ += absl::ToInt64Microseconds(by);
    EXPECT_NEAR(static_cast<double>(Seconds() - before), absl::ToDoubleSeconds(by), 2);
  }
  int64_t Seconds() {
    int64_t seconds = 0;
    EXPECT_TRUE(absl::SimpleAtoi(server_->Command({"TIME"}).elements.at(0).text, &seconds));
    return seconds;
  }

  const support::TempDir directory_;
  const std::string path_ = absl::StrCat(directory_.path(), "/shift");
  const base::UniqueFd file_{open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  std::atomic<int64_t>* shift_ = nullptr;
  std::unique_ptr<support::RedisServer> server_;
  std::optional<Client> client_;
};

template <class Lock>
class ServerClockOf : public ServerClock {};
using ClockLocks = ::testing::Types<SimpleLock, ReentrantLock>;
TYPED_TEST_SUITE(ServerClockOf, ClockLocks);

TYPED_TEST(ServerClockOf, StepsForwardAndTheHolderIsToldAndOutdone) {
  TypeParam lock(*this->client_, "lock", {.lease = absl::Seconds(3)});
  const Client other = *Client::Connect(this->server_->url());
  TypeParam rival(other, "lock");
  absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  const absl::Duration before = lease->remaining();
  this->Step(absl::Minutes(1));
  EXPECT_LE(lease->remaining(), before) << "it counts on a clock of its own";
  const absl::StatusOr<Lease> next = rival.Acquire({.wait = absl::Seconds(10)});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_GT(next->fencing_token(), lease->fencing_token());
  EXPECT_TRUE(Await([&] { return lease->lost().stop_requested(); }));
  EXPECT_FALSE(lease->valid());
  EXPECT_TRUE(next->valid());
}

TYPED_TEST(ServerClockOf, StepsBackAndTokensGrowAllTheSame) {
  TypeParam lock(*this->client_, "lock", {.lease = absl::Seconds(3)});
  absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  const FencingToken first = lease->fencing_token();
  this->Step(-absl::Minutes(1));
  EXPECT_LE(lease->remaining(), absl::Seconds(3)) << "whatever the server believes";
  EXPECT_TRUE(lease->Release().ok());
  FencingToken latest = first;
  for (int round = 0; round < 10; ++round) {
    lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_GT(lease->fencing_token(), latest);
    latest = lease->fencing_token();
    EXPECT_TRUE(lease->Release().ok());
  }
}

TYPED_TEST(ServerClockOf, StepsBackAndWhoeverWaitsIsHandedTheLock) {
  TypeParam lock(*this->client_, "lock");
  const Client other = *Client::Connect(this->server_->url());
  TypeParam rival(other, "lock");
  absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  absl::StatusOr<Lease> next;
  std::thread waiter([&] { next = rival.Acquire({.wait = absl::Seconds(60)}); });
  EXPECT_TRUE(Await([&] {
    return !this->server_->Command({"KEYS", "redlatch:2:{lock}:*.queue"}).elements.empty();
  }));
  this->Step(-absl::Hours(1));
  const FencingToken first = lease->fencing_token();
  EXPECT_TRUE(lease->Release().ok());
  waiter.join();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_GT(next->fencing_token(), first);
}

TEST_F(ServerClock, StepsForwardAndPermitsAreToBeHadAgain) {
  Semaphore semaphore(*client_, "permits", 1, {.lease = absl::Seconds(3)});
  const absl::StatusOr<Permit> permit = semaphore.Acquire();
  ASSERT_TRUE(permit.ok()) << permit.status();
  Step(absl::Minutes(1));
  const Client other = *Client::Connect(server_->url());
  Semaphore rival(other, "permits", 1, {.lease = absl::Seconds(3)});
  EXPECT_TRUE(rival.Acquire(1, {.wait = absl::Seconds(10)}).ok());
  EXPECT_TRUE(Await([&] { return permit->lost().stop_requested(); }));
}

}  // namespace
}  // namespace redlatch
