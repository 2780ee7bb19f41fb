// The std interface: the compiler checks the named requirements, and the tests run std's guards.
#include <condition_variable>
#include <type_traits>

#include "redlatch/run_locked.h"
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

using std::chrono::milliseconds;

static_assert(TimedLockable<RedisLockBase> && Unmovable<RedisLockBase>);
static_assert(TimedLockable<SimpleLock> && Unmovable<SimpleLock>);
static_assert(TimedLockable<ReentrantLock> && Unmovable<ReentrantLock>);
static_assert(TimedLockable<ReentrantReadWriteLock> && Unmovable<ReentrantReadWriteLock>);
static_assert(SharedTimedLockable<ReentrantReadWriteLock>);
static_assert(TimedLockable<ReentrantReadWriteLock::ReadView>);
static_assert(TimedLockable<ReentrantReadWriteLock::WriteView>);
static_assert(std::has_virtual_destructor_v<RedisLockBase>);
static_assert(!std::is_copy_constructible_v<Lease> && !std::is_copy_assignable_v<Lease>);
static_assert(std::is_nothrow_move_constructible_v<Lease>);
static_assert(std::is_nothrow_move_assignable_v<Lease>);
static_assert(std::is_nothrow_destructible_v<Lease>);
static_assert(std::copyable<Hold> && std::copyable<Client>);

struct Standard : WithOther {
  const Client client_ = NewClient();
  const std::unique_ptr<RedisLockBase> lock_ = NewLock(client_);
};

TEST_P(Standard, UniqueLockTriesWaitsAdoptsAndMoves) {
  std::unique_lock tried(*lock_, std::try_to_lock);
  EXPECT_TRUE(tried.owns_lock());
  {
    const auto theirs = NewLock(other_);
    const std::unique_lock refused(*theirs, std::try_to_lock);
    EXPECT_FALSE(refused.owns_lock());
    const std::unique_lock late(*theirs, milliseconds(200));
    EXPECT_FALSE(late.owns_lock());
  }
  std::unique_lock moved(std::move(tried));
  moved.unlock();
  EXPECT_TRUE(FreeForOthers());
  EXPECT_TRUE(moved.try_lock_for(std::chrono::seconds(10)));
  moved.unlock();
  lock_->lock();
  {
    const std::unique_lock adopted(*lock_, std::adopt_lock);
    EXPECT_TRUE(BusyForOthers());
  }
  EXPECT_TRUE(FreeForOthers());
}

TEST_P(Standard, ScopedLockTakesSeveralLocks) {
  const auto second = NewLock(client_, "second");
  const auto third = NewLock(other_, "third");
  {
    const std::scoped_lock guard(*lock_, *second, *third);
    EXPECT_TRUE(BusyForOthers());
    EXPECT_TRUE(BusyForOthers("second"));
    Crew().Start([&] { EXPECT_TRUE(BusyForOthers("third")); });
  }
  // unlock() does not wait for its release to be executed.
  EXPECT_TRUE(Await([&] { return Try(other_).ok(); }));
  EXPECT_TRUE(Await([&] { return Try(other_, "second").ok(); }));
  EXPECT_TRUE(Await([&] { return Try(client_, "third").ok(); }));
}

TEST_P(Standard, ConditionVariableAnyWaitsWithoutTheLock) {
  std::condition_variable_any changed;
  std::atomic<int> stage{0};
  Crew crew;
  crew.Start([&] {
    std::unique_lock mine(*lock_);
    stage = 1;
    changed.notify_all();
    changed.wait(mine, [&] { return stage == 2; });
    EXPECT_TRUE(lock_->current().valid());
    stage = 3;
    changed.notify_all();
  });
  std::unique_lock mine(*lock_);
  EXPECT_TRUE(changed.wait_for(mine, std::chrono::seconds(10), [&] { return stage == 1; }));
  stage = 2;
  changed.notify_all();
  EXPECT_TRUE(changed.wait_for(mine, std::chrono::seconds(10), [&] { return stage == 3; }));
  EXPECT_TRUE(mine.owns_lock());
  EXPECT_TRUE(BusyForOthers());
}

TEST_P(Standard, RunLockedReturnsResultOfWork) {
  const absl::StatusOr<int> result = RunLocked(*lock_, {}, [&](std::stop_token lost) {
    EXPECT_TRUE(BusyForOthers());
    EXPECT_FALSE(lost.stop_requested());
    return absl::StatusOr<int>(42);
  });
  ASSERT_OK(result);
  EXPECT_EQ(*result, 42);
  const absl::Status failed = RunLocked(
      *lock_, {}, [](std::stop_token) { return absl::DataLossError("of the work's own"); });
  EXPECT_EQ(failed, absl::DataLossError("of the work's own"));
  EXPECT_TRUE(FreeForOthers());
}

TEST_P(Standard, RunLockedDoesNotRunWithoutLock) {
  const auto theirs = Must(NewLock(other_)->Acquire());
  bool ran = false;
  const absl::Status status =
      RunLocked(*lock_, {.wait = absl::Milliseconds(5)}, [&](std::stop_token) {
        ran = true;
        return absl::OkStatus();
      });
  EXPECT_EQ(status.code(), kBusy);
  EXPECT_FALSE(ran);
}

TEST_P(Standard, RunLockedReportsLossAndExceptions) {
  const absl::Status lost = RunLocked(*lock_, {}, [&](std::stop_token token) {
    EXPECT_OK(NewLock(other_)->ForceRelease());
    EXPECT_TRUE(Await([&] { return token.stop_requested(); }));
    return absl::OkStatus();
  });
  EXPECT_EQ(lost.code(), kLost) << lost;
  EXPECT_THROW(
      (void)RunLocked(*lock_, {}, [](std::stop_token) -> absl::Status { throw std::exception(); }),
      std::exception);
  EXPECT_TRUE(FreeForOthers());
}

INSTANTIATE_CONFORMANCE(Standard, WithoutSmoke(LockCases()));

}  // namespace
}  // namespace redlatch::conformance
