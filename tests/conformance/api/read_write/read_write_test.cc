// The two sides of a read-write lock: who excludes whom, std's guards, leases and tokens.
#include <shared_mutex>

#include "redlatch/owner.h"
#include "tests/conformance/api/read_write/fixture.h"

namespace redlatch::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

class ReadWrite : public ReadWriteConformance {};

TEST_P(ReadWrite, ReadersOfSeveralClientsAndThreadsShare) {
  const std::shared_lock reading(*lock_);
  const std::shared_lock theirs(*theirs_);
  Crew().Start([&] {
    const std::shared_lock same_client(*lock_);
    EXPECT_TRUE(lock_->current_read().valid());
    EXPECT_EQ(lock_->read_hold_count(), 1);
  });
  EXPECT_TRUE(lock_->current_read().valid());
  EXPECT_TRUE(theirs_->current_read().valid());
  EXPECT_EQ(lock_->hold_count(), 0);
  EXPECT_FALSE(lock_->current().valid());
  EXPECT_TRUE(ReadersSoonGetIn(*thirds_));
  const auto info = lock_->Inspect();
  ASSERT_OK(info);
  EXPECT_EQ(info->kind, "read_write");
  EXPECT_EQ(info->holders.size(), 2);
  EXPECT_EQ(info->holding, 2);
  for (const LockInfo::Party& reader : info->holders) EXPECT_EQ(reader.process.pid, getpid());
}

TEST_P(ReadWrite, SharedLockTriesWaitsAdoptsAndMoves) {
  std::shared_lock tried(*lock_, std::try_to_lock);
  EXPECT_TRUE(tried.owns_lock());
  std::shared_lock moved(std::move(tried));
  EXPECT_FALSE(WritersGetIn(*theirs_));
  moved.unlock();
  {
    const std::scoped_lock writing(*theirs_);
    EXPECT_FALSE(moved.try_lock());
    EXPECT_FALSE(moved.try_lock_for(milliseconds(5)));
  }
  EXPECT_TRUE(moved.try_lock_for(milliseconds(500)));
  moved.unlock();
  lock_->lock_shared();
  {
    const std::shared_lock adopted(*lock_, std::adopt_lock);
    EXPECT_FALSE(WritersGetIn(*theirs_));
  }
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
}

TEST_P(ReadWrite, ViewsGoIntoStdsGuards) {
  {
    const std::scoped_lock reading(lock_->read_lock());
    EXPECT_EQ(lock_->read_hold_count(), 1);
    EXPECT_TRUE(ReadersSoonGetIn(*theirs_));
    EXPECT_FALSE(WritersGetIn(*theirs_));
  }
  {
    const std::scoped_lock writing(lock_->write_lock());
    EXPECT_EQ(lock_->hold_count(), 1);
    EXPECT_FALSE(ReadersGetIn(*theirs_));
  }
  std::unique_lock tried(lock_->read_lock(), std::try_to_lock);
  EXPECT_TRUE(tried.owns_lock());
  tried.unlock();
  std::unique_lock deferred(lock_->read_lock(), std::defer_lock);
  EXPECT_TRUE(deferred.try_lock_for(milliseconds(500)));
  deferred.unlock();
  EXPECT_TRUE(deferred.try_lock_until(system_clock::now() + std::chrono::seconds(1)));
  deferred.unlock();
  std::unique_lock late(lock_->write_lock(), std::chrono::seconds(1));
  EXPECT_TRUE(late.owns_lock());
}

TEST_P(ReadWrite, ViewsOfTwoLocksGoIntoOneGuard) {
  Lock another(other_, "another", Options());
  std::unique_lock reading(lock_->read_lock(), std::defer_lock);
  std::unique_lock writing(another.write_lock(), std::defer_lock);
  // A try_lock() of std::lock may have no answer in time, on a busy machine; then it holds none.
  EXPECT_TRUE(Await([&] {
    try {
      std::lock(reading, writing);
      return true;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), MakeErrorCode(kUnreachable)) << error.what();
      return false;
    }
  }));
  EXPECT_TRUE(lock_->current_read().valid());
  EXPECT_TRUE(another.current().valid());
}

TEST_P(ReadWrite, TimedReadsTakeAFreeLockAtOnceAndOneThatIsReleasedMeanwhile) {
  EXPECT_TRUE(lock_->try_lock_shared_until(steady_clock::now() + std::chrono::hours(1)));
  lock_->unlock_shared();
  EXPECT_TRUE(lock_->try_lock_shared_for(std::chrono::hours::max()));
  lock_->unlock_shared();
  theirs_->lock();
  Crew crew;
  crew.Start([&] {
    EXPECT_TRUE(lock_->try_lock_shared_for(std::chrono::seconds(10)));
    lock_->unlock_shared();
  });
  EXPECT_TRUE(AwaitWaiting(1));
  theirs_->unlock();
}

TEST_P(ReadWrite, AReadLeaseIsValidUntilItIsReleased) {
  auto lease = lock_->AcquireRead();
  ASSERT_OK(lease);
  EXPECT_TRUE(lease->valid());
  EXPECT_GT(lease->remaining(), absl::ZeroDuration());
  EXPECT_LE(lease->remaining(), kLease);
  EXPECT_TRUE(lease->lost().stop_possible());
  EXPECT_FALSE(WritersGetIn(*theirs_));
  EXPECT_OK(lease->Release());
  EXPECT_FALSE(lease->valid());
  EXPECT_EQ(lease->remaining(), absl::ZeroDuration());
  EXPECT_FALSE(lease->lost().stop_requested());
  EXPECT_OK(lease->Release());
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
}

INSTANTIATE_CONFORMANCE(ReadWrite, ReadWriteCases());

constexpr absl::Duration kEndLease = absl::Milliseconds(200);

class ReadEnd : public ReadWriteConformance {};

TEST_P(ReadEnd, AManualReadEndsAloneAndExtendsAtWill) {
  std::optional<Lease> manual;
  std::optional<Lease> renewed;
  Crew().Start([&] { manual = *lock_->AcquireRead({.lease = kEndLease}); });
  Crew().Start([&] { renewed = *lock_->AcquireRead(); });
  const auto theirs = theirs_->AcquireRead();
  ASSERT_OK(theirs);
  EXPECT_OK(manual->Extend(2 * kEndLease));
  EXPECT_GT(manual->remaining(), kEndLease);
  EXPECT_EQ(CodeOf(renewed->Extend(kLease)), kMisuse);
  EXPECT_TRUE(Await([&] { return manual->lost().stop_requested(); }));
  EXPECT_EQ(CodeOf(manual->Release()), kLost);
  EXPECT_TRUE(renewed->valid());
  EXPECT_TRUE(theirs->valid());
  EXPECT_FALSE(WritersGetIn(*thirds_));
}

TEST_P(ReadEnd, AForcedReleaseIsToldToAllReadersAtOnce) {
  std::optional<Lease> joined;
  lock_->lock_shared();
  Crew().Start([&] { joined = *lock_->AcquireRead(); });
  auto theirs = theirs_->AcquireRead();
  ASSERT_OK(theirs);
  const std::stop_token tokens[] = {lock_->current_read().lost(), joined->lost(), theirs->lost()};
  const base::Instant forced = base::Now();
  EXPECT_OK(thirds_->ForceRelease());
  for (const std::stop_token& lost : tokens) {
    EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  }
  EXPECT_LT(base::Now() - forced, kSoon);
  EXPECT_FALSE(lock_->current_read().valid());
  EXPECT_EQ(lock_->read_hold_count(), 0);
  EXPECT_EQ(CodeOf(joined->Release()), kLost);
  EXPECT_EQ(CodeOf(theirs->Release()), kLost);
  EXPECT_TRUE(WritersSoonGetIn(*thirds_));
  lock_->unlock_shared();
  EXPECT_EQ(heard_->Count("misuse"), 0);
  const std::shared_lock again(*lock_);
  EXPECT_TRUE(lock_->current_read().valid());
}

TEST_P(ReadEnd, ALossIsRememberedUntilUnlockWhateverOthersReadMeanwhile) {
  lock_->lock_shared();
  const std::stop_token lost = lock_->current_read().lost();
  EXPECT_OK(thirds_->ForceRelease());
  ASSERT_TRUE(Await([&] { return lost.stop_requested(); }));
  // Neither joins the other.
  for (int i = 0; i < 5; ++i) {
    std::optional<Lease> first;
    std::optional<Lease> second;
    Crew().Start([&] { first = *lock_->AcquireRead(); });
    Crew().Start([&] { second = *lock_->AcquireRead({.lease = kEndLease}); });
  }
  lock_->unlock_shared();
  EXPECT_EQ(heard_->Count("misuse"), 0);
  lock_->unlock_shared();
  EXPECT_TRUE(heard_->Await("misuse", 1));
}

TEST_P(ReadEnd, TheLastObjectEndsItsThreadsReads) {
  auto lock = NewReadWrite(other_);
  const auto same = NewReadWrite(other_);
  EXPECT_EQ(same->read_hold_count(), 0);  // from its first use on it counts
  lock->lock_shared();
  lock.reset();
  EXPECT_EQ(same->read_hold_count(), 1);
  EXPECT_FALSE(WritersGetIn(*lock_));
  {
    const auto only = NewReadWrite(NewClient());
    only->lock_shared();
    EXPECT_TRUE(AwaitHolders(2));
  }
  EXPECT_TRUE(AwaitHolders(1));
  same->unlock_shared();
  EXPECT_TRUE(WritersSoonGetIn(*lock_));
}

TEST_P(ReadEnd, AStopOrTheEndOfItsObjectEndsAReadThatWaits) {
  const std::scoped_lock writing(*theirs_);
  auto lock = NewReadWrite(NewClient());
  std::stop_source stop;
  Crew crew;
  crew.Start([&lock = *lock] { EXPECT_EQ(CodeOf(lock.AcquireRead()), kCancelled); });
  crew.Start(
      [&] { EXPECT_EQ(CodeOf(lock_->AcquireRead({.stop = stop.get_token()})), kCancelled); });
  ASSERT_TRUE(AwaitWaiting(2));
  stop.request_stop();
  lock.reset();
  crew.Join();
  EXPECT_TRUE(AwaitWaiting(0));
}

TEST_P(ReadEnd, AReadLeaseThatOutlivesItsLockIsKnownToTheNextOfThatName) {
  std::optional<Lease> lease = *NewReadWrite(client_)->AcquireRead();
  const auto lock = NewReadWrite(client_);
  EXPECT_EQ(lock->read_hold_count(), 1);
  EXPECT_EQ(CodeOf(lock->AcquireWrite({.wait = kPatience})), kMisuse) << "it waits for itself";
  Crew crew;
  crew.Start([&] { EXPECT_OK(theirs_->AcquireWrite({.wait = kPatience})); });
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_TRUE(lock->try_lock_shared());
  lease.reset();
  lock->unlock_shared();
}

TEST_P(ReadEnd, TheLastObjectEndsItsThreadsReadsThoughAnotherThreadsLeaseStays) {
  auto lock = NewReadWrite(client_);
  std::optional<Lease> lease;
  lock->lock_shared();
  Crew().Start([&] { lease = *lock->AcquireRead({.lease = kPatience}); });
  lock.reset();
  EXPECT_TRUE(AwaitHolders(1));
  EXPECT_TRUE(lease->valid());
}

TEST_P(ReadEnd, UnlockSharedWithoutAReadIsMisuseAndReleasesNothing) {
  lock_->unlock_shared();
  EXPECT_TRUE(heard_->Await("misuse", 1));
  lock_->lock();
  lock_->unlock_shared();
  EXPECT_TRUE(heard_->Await("misuse", 2));
  EXPECT_FALSE(ReadersGetIn(*theirs_));
  lock_->unlock();
  lock_->lock_shared();
  lock_->unlock();
  EXPECT_TRUE(heard_->Await("misuse", 3));
  EXPECT_FALSE(WritersGetIn(*theirs_));
  Crew().Start([&] { lock_->unlock_shared(); });
  EXPECT_TRUE(heard_->Await("misuse", 4));
  EXPECT_FALSE(WritersGetIn(*theirs_));
  lock_->unlock_shared();
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
  EXPECT_EQ(heard_->Count("misuse"), 4);
}

TEST_P(ReadEnd, AnOwnerIsForWritersOnly) {
  EXPECT_EQ(CodeOf(lock_->AcquireRead({.owner = Owner("job")})), kBadInput);
  EXPECT_OK(lock_->AcquireWrite({.owner = Owner("job")}));
}

// The other way round it is seen on one client only: readers leave the key to writers.
TEST_P(ReadEnd, AnotherClassOfLocksIsMisuseToReaders) {
  std::shared_lock reading(*lock_);
  ReentrantLock same_client(client_, kName, Options());
  EXPECT_EQ(CodeOf(same_client.TryAcquire()), kMisuse);
  EXPECT_TRUE(lock_->current_read().valid());
  reading.unlock();
  {
    ReentrantLock foreign(other_, kName, Options());
    const auto held = Try(foreign);
    ASSERT_OK(held);
    EXPECT_EQ(CodeOf(TryRead(*lock_)), kMisuse);
    EXPECT_EQ(CodeOf(lock_->AcquireRead()), kMisuse);
    EXPECT_EQ(CodeOf(TryRead(*theirs_)), kMisuse);
    EXPECT_TRUE(held->valid());
  }
  EXPECT_TRUE(ReadersSoonGetIn(*lock_));
}

INSTANTIATE_CONFORMANCE(ReadEnd, ReadWriteCases());

}  // namespace
}  // namespace redlatch::conformance
