// Tests holders that are told of waiters: the cost, the messages, and the combination with other
// options.
#include "redlatch/owner.h"
#include "tests/support/acquire_as.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

const LockOptions kTold{.tell_if_wanted = true};

class WantedLock : public ::testing::Test {
 protected:
  // Returns how often scripts and native commands of locks have run.
  int64_t Commands() { return server_->Calls({"eval", "evalsha", "set", "delifeq", "delex"}); }
  static std::jthread Waits(RedisLockBase& lock) {
    return std::jthread([&lock] { EXPECT_TRUE(lock.Acquire().ok()); });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url());
  const Client other_ = Connect(server_->url());
};

TEST_F(WantedLock, CostsNoFurtherCommand) {
  SimpleLock plain(client_, "plain"), told(client_, "told", kTold);
  ASSERT_TRUE(plain.Acquire().ok() && told.Acquire().ok());
  const auto commands = [&](SimpleLock& lock) {
    const int64_t before = Commands();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
    return Commands() - before;
  };
  EXPECT_EQ(commands(told), commands(plain));
}

TEST_F(WantedLock, IsNotCachedOrHeldLonger) {
  SimpleLock told(client_, "told", kTold);
  told.lock();
  EXPECT_EQ(server_->Text({"GET", "told"}).back(), 'k');
  told.unlock();
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "told"}) == 0; }));
}

TEST_F(WantedLock, RenewalReservesNoTokens) {
  const Lease lease = Must(
      SimpleLock(client_, "told", {.lease = absl::Seconds(2), .tell_if_wanted = true}).Acquire());
  const std::string fence = server_->Text({"GET", "redlatch:2:{told}:fence"});
  EXPECT_EQ(fence, absl::StrCat(lease.fencing_token().value()));
  const int64_t before = Commands();
  EXPECT_TRUE(Await([&] { return Commands() >= before + 2; })) << "it is renewed twice";
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(server_->Text({"GET", "redlatch:2:{told}:fence"}), fence);
}

// The waiter is in the queue, and its message did not come.
TEST_F(WantedLock, RenewalTellsHolderIfMessageWasLost) {
  const Lease lease = Must(
      SimpleLock(client_, "told", {.lease = absl::Seconds(2), .tell_if_wanted = true}).Acquire());
  const std::stop_token wanted = lease.wanted();
  server_->Command({"ZADD", "redlatch:2:{told}:simple.queue", "1", "foreign"});
  EXPECT_TRUE(Fires(wanted));
  server_->Command({"DEL", "redlatch:2:{told}:simple.queue"});
}

TEST_F(WantedLock, CachedLockTellsItsHolder) {
  LockOptions both = kTold;
  both.cache_for = absl::Seconds(20);
  SimpleLock lock(client_, "lock", both), theirs(other_, "lock");
  for (int i = 0; i < 2; ++i) {
    lock.lock();
    lock.unlock();
  }
  lock.lock();
  const std::stop_token wanted = lock.current().wanted();
  EXPECT_FALSE(wanted.stop_requested());
  const std::jthread waits = Waits(theirs);
  EXPECT_TRUE(Fires(wanted));
  lock.unlock();
}

TEST_F(WantedLock, ObjectsWithDifferentOptionsTakeTurns) {
  SimpleLock told(client_, "lock", kTold), plain(client_, "lock");
  for (int i = 0; i < 3; ++i) {
    const Lease lease = Must(told.Acquire());
    EXPECT_TRUE(lease.wanted().stop_possible());
    std::jthread other([&] { EXPECT_FALSE(Must(plain.Acquire()).wanted().stop_possible()); });
    EXPECT_TRUE(Fires(lease.wanted()));
    EXPECT_TRUE(const_cast<Lease&>(lease).Release().ok());
  }
}

TEST_F(WantedLock, OwnerIsTold) {
  ReentrantLock told(client_, "lock", kTold), theirs(other_, "lock");
  Lease lease = Must(told.AcquireAs(Owner("job")));
  const std::jthread waits = Waits(theirs);
  EXPECT_TRUE(Fires(lease.wanted()));
  EXPECT_TRUE(lease.Release().ok());
}

TEST_F(WantedLock, AsynchronousHoldIsTold) {
  SimpleLock told(client_, "lock", kTold), theirs(other_, "lock");
  Leases leases;
  told.AcquireAsync({}, leases.Callback());
  Lease lease = Must(leases.Take());
  Leases next;
  theirs.AcquireAsync({}, next.Callback());
  EXPECT_TRUE(Fires(lease.wanted()));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(next.Take().ok());
}

// MultiLocks, as waiters and as holders.

TEST_F(WantedLock, HolderOfOneNameIsToldOfWaitingMultiLock) {
  SimpleLock told(client_, "b", kTold);
  MultiLock all(other_, {"a", "b", "c"});
  Lease lease = Must(told.Acquire());
  const std::jthread waits = Waits(all);
  EXPECT_TRUE(Fires(lease.wanted()));
  EXPECT_TRUE(lease.Release().ok());
}

TEST_F(WantedLock, MultiLockIsToldIfOneOfItsLocksIs) {
  ReentrantLock a(client_, "a", kTold), b(client_, "b", kTold), theirs(other_, "b");
  MultiLock both({&a, &b});
  Lease lease = Must(both.Acquire());
  const std::stop_token wanted = lease.wanted();
  EXPECT_FALSE(wanted.stop_requested());
  const std::jthread waits = Waits(theirs);
  EXPECT_TRUE(Fires(wanted));
  EXPECT_TRUE(lease.wanted().stop_requested());
  EXPECT_TRUE(lease.Release().ok());
}

TEST_F(WantedLock, MultiLockByOneScriptIsRefused) {
  SimpleLock a(client_, "a", kTold), b(client_, "b", kTold);
  EXPECT_THAT(MultiLock({&a, &b}).Acquire().status(),
              IsError(absl::StatusCode::kInvalidArgument, HasSubstr("tell_if_wanted")));
}

TEST_F(WantedLock, ForkedChildIsNotTold) {
  const Lease lease = Must(SimpleLock(client_, "lock", kTold).Acquire());
  const pid_t child = fork();
  if (child == 0) _exit(lease.wanted().stop_possible() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace redlatch
