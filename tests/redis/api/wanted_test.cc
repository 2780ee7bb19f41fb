// Tests holders that are told of waiters: the cost, the messages, and the combination with other
// options.
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

const LockOptions kTold{.tell_if_wanted = true};

struct WantedLock : ::testing::Test {
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
