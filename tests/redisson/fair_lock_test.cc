#include "tests/redisson/redisson_testing.h"

namespace redlatch {
namespace {

using Clock = std::chrono::steady_clock;

struct RedissonFairLock : RedissonTest {
  // One more waiter of each language, one after the other, in the queue. Each C++ waiter has its
  // own client, because the threads of a client share its place.
  void Queue(int64_t& waiters) {
    javas_.push_back(java().Send(absl::StrCat("waiter", waiters), "pass", "fair", "orders"));
    ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", ++waiters));
    ours_.push_back(InThread([this] {
      const Client own = Connect(server().url());
      absl::StatusOr<Lease> lease = redisson::FairLock(own, "orders").Acquire({.wait = kLong});
      const Clock::time_point had = Clock::now();
      EXPECT_TRUE(lease.ok()) << lease.status();
      if (!lease.ok()) return had;
      EXPECT_TRUE(lease->Release().ok());
      return had;
    }));
    ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", ++waiters));
  }
  // When each of them had the lock, in the order of the queue.
  std::vector<Clock::time_point> Times() {
    std::vector<Clock::time_point> times;
    for (size_t i = 0; i < javas_.size(); ++i) {
      const JavaReply reply = javas_[i].Get();
      int64_t nanos = 0;
      EXPECT_TRUE(reply.ok && absl::SimpleAtoi(reply.value, &nanos)) << reply.value;
      times.emplace_back(std::chrono::nanoseconds(nanos));
      times.push_back(ours_.at(i).get());
    }
    return times;
  }

  std::vector<PendingReply> javas_;
  std::vector<std::future<Clock::time_point>> ours_;
};

TEST_F(RedissonFairLock, ServesBothLanguagesInOrder) {
  ASSERT_EQ(java().Do("holder", "lock", "fair", "orders"), "");
  int64_t waiters = 0;
  for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(Queue(waiters));
  const Clock::time_point released = Clock::now();
  ASSERT_EQ(java().Do("holder", "unlock", "fair", "orders"), "");
  const std::vector<Clock::time_point> times = Times();
  EXPECT_LT(released, times.front());
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_LT(times.back() - released, absl::ToChronoMilliseconds(kSoon));
}

TEST_F(RedissonFairLock, NewcomerDoesNotOvertakeJavaWaiter) {
  auto lease = Must(redisson::FairLock(client(), "orders").Acquire());
  int64_t waiters = 0;
  ASSERT_NO_FATAL_FAILURE(Queue(waiters));
  const Client another = Connect(server().url());
  EXPECT_TRUE(IsBusy(redisson::FairLock(another, "orders").TryAcquire().status()));
  EXPECT_EQ(java().Do("newcomer", "tryLock", "fair", "orders", 0, -1), "false");
  EXPECT_TRUE(lease.Release().ok());
  const std::vector<Clock::time_point> times = Times();
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

TEST_F(RedissonFairLock, KilledJavaWaiterLosesPlaceAfterTimeout) {
  JavaPeer mortal;
  JavaClient other(mortal, server().url(), {.fair_wait = absl::Seconds(1)});
  auto lease =
      Must(redisson::FairLock(client(), "orders", {.lease = absl::Seconds(1)}, absl::Seconds(1))
               .Acquire());
  const PendingReply killed = other.Send("1", "lock", "fair", "orders");
  ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", 1));
  const Client another = Connect(server().url());
  redisson::FairLock same(another, "orders", {.lease = absl::Seconds(1)}, absl::Seconds(1));
  auto behind = AcquireInThread(same);
  ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", 2));
  mortal.Kill();
  EXPECT_FALSE(killed.Get().ok);
  EXPECT_TRUE(lease.Release().ok());
  const absl::Duration took = TimeOf([&] { const auto got = Must(behind.get()); });
  // Redisson adds what was left of the lease to the timeout.
  EXPECT_LT(took, absl::Seconds(2) + kSoon);
}

// The process holds nothing; it only waits.
REDLATCH_CHILD(FairWaiter) {
  const Client client = Connect(args.at(0));
  redisson::FairLock lock(client, args.at(1), {.lease = absl::Seconds(1)}, absl::Seconds(1));
  parent.WriteLine("begins");
  EXPECT_FALSE(lock.Acquire().ok());
  return 0;
}

TEST_F(RedissonFairLock, KilledWaiterLosesPlaceAfterTimeout) {
  const auto patient = ConnectJava({.watchdog = absl::Seconds(1), .fair_wait = absl::Seconds(1)});
  ASSERT_EQ(patient->Do("holder", "lock", "fair", "orders"), "");
  const auto child = support::SpawnChild("FairWaiter", {server().url(), "orders"});
  ASSERT_EQ(child->pipe().ReadLine(), "begins");
  ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", 1));
  const PendingReply behind = patient->Send("behind", "lock", "fair", "orders");
  ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", 2));
  child->Kill();
  ASSERT_EQ(patient->Do("holder", "unlock", "fair", "orders"), "");
  EXPECT_TRUE(behind.Get(absl::Seconds(2) + kSoon).ok) << behind.Get().value;
}

// A dead waiter was first when the lock was released, so the release told no living one.
TEST_F(RedissonFairLock, NewHeadIsToldWhenDeadWaiterIsDropped) {
  const std::string dead = std::string(32, 'a') + ":1";
  server().Do({"HSET", "orders", "01234567-89ab-cdef-0123-456789abcdef:1", "1"});
  server().Do({"PEXPIRE", "orders", "600000"});
  server().Do({"RPUSH", "redisson_lock_queue:{orders}", dead});
  server().Do({"ZADD", "redisson_lock_timeout:{orders}", "9e12", dead});
  const PendingReply waiter = java().Send("waiter", "lock", "fair", "orders");
  ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", 2));
  ASSERT_TRUE(java().AwaitWaiting("waiter"));
  server().Do({"DEL", "orders"});
  redisson::FairLock lock(client(), "orders");
  auto behind = AcquireInThread(lock);
  EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
  EXPECT_EQ(java().Do("waiter", "unlock", "fair", "orders"), "");
  EXPECT_TRUE(behind.get().ok());
}

TEST_F(RedissonFairLock, OverdueJavaWaiterIsToldOfRelease) {
  auto lease = Must(redisson::FairLock(client(), "orders").Acquire());
  const PendingReply waiter = java().Send("waiter", "lock", "fair", "orders");
  ASSERT_TRUE(AwaitWaiters(server(), "fair", "orders", 1));
  ASSERT_TRUE(java().AwaitWaiting("waiter"));
  const std::string overdue = server().Text({"LINDEX", "redisson_lock_queue:{orders}", "0"});
  server().Do({"ZADD", "redisson_lock_timeout:{orders}", "1", overdue});
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(waiter.Get(kSoon).ok) << waiter.Get().value;
}

}  // namespace
}  // namespace redlatch
