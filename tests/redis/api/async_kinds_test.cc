// The asynchronous face of what is more than a mutex: readers, permits, latches, several locks at
// once, several servers, replicas that confirm.
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/multi_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/outcomes.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using support::RedisServer;
using Leases = support::Outcomes<absl::StatusOr<Lease>>;
using Permits = support::Outcomes<absl::StatusOr<Permit>>;
using Statuses = support::Outcomes<absl::Status>;

constexpr auto kBusy = absl::StatusCode::kDeadlineExceeded;
constexpr auto kCancelled = absl::StatusCode::kCancelled;

class AsyncKinds : public ::testing::Test {
 protected:
  static bool AwaitWaiting(const Client& client, uint64_t count) {
    return Await([&] { return client.Stats().all.waiting == count; });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url());
  Client other_ = Connect(server_->url());
  Leases leases_;
  Permits permits_;
  Statuses statuses_;
};

TEST_F(AsyncKinds, LocksThatGoEndTheirReaders) {
  auto lock = std::make_unique<ReentrantReadWriteLock>(client_, "rw");
  ReentrantReadWriteLock theirs(other_, "rw");
  const Lease writing = *theirs.AcquireWrite();
  for (int i = 0; i < 3; ++i) lock->AcquireReadAsync({}, leases_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 3));
  lock.reset();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(leases_.Take(i).status().code(), kCancelled);
}

TEST_F(AsyncKinds, PermitsAreRefusedAsByTheBlockingCall) {
  Semaphore semaphore(client_, "semaphore", 3);
  semaphore.AcquireAsync(0, {}, permits_.Callback());
  EXPECT_EQ(permits_.Take(0).status().code(), absl::StatusCode::kInvalidArgument);
  semaphore.AcquireAsync(4, {}, permits_.Callback());
  EXPECT_EQ(permits_.Take(1).status().code(), absl::StatusCode::kFailedPrecondition);
  Semaphore bad(client_, "redlatch:bad", 3);
  bad.AcquireAsync(1, {}, permits_.Callback());
  EXPECT_EQ(permits_.Take(2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AsyncKinds, LatchThatGoesEndsTheWait) {
  auto latch = std::make_unique<CountDownLatch>(client_, "latch", 1);
  std::stop_source stop;
  latch->WaitAsync({.stop = stop.get_token()}, statuses_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 1));
  stop.request_stop();
  EXPECT_EQ(statuses_.Take(0).code(), kCancelled);
  latch->WaitAsync({}, statuses_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 1));
  latch.reset();
  EXPECT_EQ(statuses_.Take(1).code(), kCancelled);
  CountDownLatch(client_, "another", 1).WaitAsync({}, statuses_.Callback());
  EXPECT_EQ(statuses_.Take(2).code(), kCancelled);
}

TEST_F(AsyncKinds, LocksOfSeveralClientsAreTakenTogether) {
  const auto second = RedisServer::Start();
  Client there = Connect(second->url());
  SimpleLock a(client_, "a");
  ReentrantReadWriteLock b(there, "b");
  auto both = std::make_unique<MultiLock>(std::vector<MultiLock::Part>{&a, &b.read_lock()});
  both->AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take(0);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(lease->valid());
  EXPECT_GT(lease->fencing_token("a"), FencingToken());
  EXPECT_EQ(a.TryAcquire().status().code(), kBusy);
  lease->ReleaseAsync(statuses_.Callback());
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());

  std::optional<Lease> write = *b.AcquireWrite();
  both->AcquireAsync({.wait = absl::Milliseconds(100)}, leases_.Callback());
  EXPECT_EQ(leases_.Take(1).status().code(), kBusy);
  EXPECT_TRUE(a.TryAcquire().ok());  // it was given back
  both->AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(Await([&] { return there.Stats().all.waiting == 1; }));
  write.reset();
  EXPECT_TRUE(leases_.Take(2).ok());

  write = *b.AcquireWrite();
  both->AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(Await([&] { return there.Stats().all.waiting == 1; }));
  both.reset();
  EXPECT_EQ(leases_.Take(3).status().code(), kCancelled);
  EXPECT_TRUE(Await([&] { return a.TryAcquire().ok(); }));
}

TEST_F(AsyncKinds, NullCallbacksAreIgnoredAndLeaveNothingTaken) {
  SimpleLock simple(client_, "simple");
  ReentrantReadWriteLock read_write(client_, "read_write");
  Semaphore semaphore(client_, "semaphore", 1);
  CountDownLatch latch(client_, "latch", 1);
  MultiLock multi(client_, {"c", "d"});
  SimpleLock theirs(other_, "theirs");
  MultiLock apart(std::vector<MultiLock::Part>{&simple, &theirs});
  for (int i = 0; i < 2; ++i) {
    simple.AcquireAsync({}, nullptr);
    read_write.AcquireReadAsync({}, nullptr);
    read_write.AcquireWriteAsync({}, nullptr);
    semaphore.AcquireAsync(1, {}, nullptr);
    semaphore.AcquireAsync(-1, {}, nullptr);
    latch.WaitAsync({.wait = absl::ZeroDuration()}, nullptr);
    latch.WaitAsync({}, nullptr);
    multi.AcquireAsync({}, nullptr);
    apart.AcquireAsync({}, nullptr);
    MultiLock(std::vector<MultiLock::Part>()).AcquireAsync({}, nullptr);
    Lease().ReleaseAsync(nullptr);
    simple.Acquire()->ReleaseAsync(nullptr);
    semaphore.Acquire()->ReleaseAsync(nullptr);
  }
  latch.count_down();
  EXPECT_TRUE(simple.Acquire().ok());
  EXPECT_TRUE(theirs.Acquire().ok());
  EXPECT_TRUE(read_write.Acquire().ok());
  EXPECT_TRUE(semaphore.Acquire().ok());
  EXPECT_TRUE(multi.Acquire().ok());
}

TEST_F(AsyncKinds, ReplicasThatConfirmAreWaitedForAndTheirAbsenceIsTold) {
  const LockOptions options = {.replica_acks = 1, .ack_timeout = absl::Milliseconds(300)};
  SimpleLock lock(client_, "lock", options);
  lock.AcquireAsync({}, leases_.Callback());
  const absl::StatusOr<Lease> none = leases_.Take(0);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable) << none.status();
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "lock"}) == 0; }));  // given back
  const auto replica = RedisServer::Start({.replica_of = server_->port()});
  ASSERT_TRUE(replica->AwaitInfo("master_link_status", "up"));
  SimpleLock patient(client_, "lock", {.replica_acks = 1, .ack_timeout = absl::Seconds(5)});
  patient.AcquireAsync({}, leases_.Callback());
  const absl::StatusOr<Lease> lease = leases_.Take(1);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->acked_by(), 1);
}

// TSan finds the races.
template <class Handle>
void ReleaseWhileOthersLook(Handle handle) {
  Statuses statuses;
  std::atomic<bool> goes{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!goes) std::this_thread::yield();
      for (int round = 0; round < 20; ++round) {
        if (!handle.valid()) {
          EXPECT_LE(handle.remaining(), absl::ZeroDuration());
        }
        EXPECT_FALSE(handle.lost().stop_requested());
        handle.Extend(absl::Minutes(1)).IgnoreError();
      }
      EXPECT_EQ(handle.Release(), absl::OkStatus());
      EXPECT_FALSE(handle.valid());
    });
  }
  goes = true;
  handle.ReleaseAsync(statuses.Callback());
  for (std::thread& each : others) each.join();
  handle.ReleaseAsync(statuses.Callback());
  EXPECT_EQ(statuses.Take(0), absl::OkStatus());
  EXPECT_EQ(statuses.Take(1), absl::OkStatus());
}

TEST_F(AsyncKinds, HandlesCanBeReleasedWhileOtherThreadsUseThem) {
  SimpleLock simple(client_, "simple");
  ReentrantReadWriteLock rw(client_, "rw");
  MultiLock multi({&rw.read_lock(), &simple});
  Semaphore semaphore(client_, "semaphore", 2);
  for (int i = 0; i < 20; ++i) {
    ReleaseWhileOthersLook(*simple.Acquire({.lease = absl::Seconds(30)}));
    ReleaseWhileOthersLook(*multi.Acquire());
    ReleaseWhileOthersLook(*semaphore.Acquire(2));
  }
  EXPECT_TRUE(simple.TryAcquire().ok());
  EXPECT_TRUE(semaphore.TryAcquire(2).ok());
}

// The capture of `on_lost` is the last handle of the client when the release's callback runs.
TEST_F(AsyncKinds, OnLostMayOwnTheLastClientOfAReleasedLease) {
  for (const bool awaited : {true, false}) {
    std::optional<Client> client = Connect(server_->url());
    std::optional<SimpleLock> lock(std::in_place, *client, "lock",
                                   LockOptions{.on_lost = [kept = *client](const LostLease&) {}});
    Statuses statuses;
    lock->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      EXPECT_TRUE(lease.ok()) << lease.status();
      lock.reset();
      client.reset();
      if (awaited) return lease->ReleaseAsync(statuses.Callback());
      lease = absl::UnknownError("dropped");
      statuses.Callback()(absl::OkStatus());
    });
    EXPECT_EQ(statuses.Take(), absl::OkStatus());
    EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "lock"}) == 0; }));
  }
}

TEST_F(AsyncKinds, OnLostMayOwnTheLastClientOfALeaseReleasedByAThread) {
  std::optional<Client> client = Connect(server_->url());
  std::optional<SimpleLock> lock(std::in_place, *client, "lock",
                                 LockOptions{.on_lost = [kept = *client](const LostLease&) {}});
  lock->AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok()) << lease.status();
  lock.reset();
  client.reset();
  lease->ReleaseAsync(statuses_.Callback());
  lease = absl::UnknownError("dropped");
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "lock"}) == 0; }));
}

}  // namespace
}  // namespace redlatch
