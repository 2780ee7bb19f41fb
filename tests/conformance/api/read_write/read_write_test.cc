// The two sides of a read-write lock: exclusion, std's guards, leases and tokens.
#include <shared_mutex>

#include "tests/conformance/api/fixtures.h"

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
  absl::StatusOr<LockInfo> info;
  ASSERT_TRUE(Await([&] {  // the third client's release may be in flight
    info = lock_->Inspect();
    return info.ok() && info->holding == 2;
  }));
  EXPECT_EQ(info->kind, "read_write");
  EXPECT_EQ(info->holders.size(), 2);
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

TEST_P(ReadWrite, ViewsWorkInStdGuards) {
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

TEST_P(ReadWrite, TimedReadsGetFreeOrReleasedLock) {
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

INSTANTIATE_CONFORMANCE(ReadWrite, ReadWriteCases());

using ReadUnreachable = WithOutages<Conformance>;

TEST_P(ReadUnreachable, ReaderThatCannotJoinFailsAfterUnreachableAfter) {
  constexpr absl::Duration kGiveUp = absl::Milliseconds(400);  // twice the command_timeout
  const Client client = NewClient({.unreachable_after = kGiveUp});
  ReentrantReadWriteLock lock(client, kName, {.lease = kLease, .turn = absl::ZeroDuration()});
  const auto reads = Must(lock.AcquireRead());
  const Outage outage(server(), How::kHangs);
  Crew().Start([&] {
    redis::Punctuality punctuality;
    const base::Instant give_up_at = base::Now() + kGiveUp;
    EXPECT_EQ(CodeOf(lock.AcquireRead()), kUnreachable);
    punctuality.Note(give_up_at);
    EXPECT_TRUE(punctuality.Within(kGrace));
  });
}

INSTANTIATE_CONFORMANCE(ReadUnreachable, OverTcp(ReadWriteCases()));

constexpr absl::Duration kEndLease = absl::Seconds(1);

class ReadEnd : public ReadWriteConformance {};

TEST_P(ReadEnd, ManualReadEndsUnlessExtended) {
  std::optional<Lease> manual;
  std::optional<Lease> renewed;
  Crew().Start([&] { manual = *lock_->AcquireRead({.lease = kEndLease}); });
  Crew().Start([&] { renewed = *lock_->AcquireRead(); });
  const auto theirs = Must(theirs_->AcquireRead());
  EXPECT_OK(manual->Extend(2 * kEndLease));
  EXPECT_GT(manual->remaining(), kEndLease);
  EXPECT_EQ(CodeOf(renewed->Extend(kLease)), kMisuse);
  EXPECT_TRUE(Await([&] { return manual->lost().stop_requested(); }));
  EXPECT_EQ(CodeOf(manual->Release()), kLost);
  EXPECT_TRUE(renewed->valid());
  EXPECT_TRUE(theirs.valid());
  EXPECT_FALSE(WritersGetIn(*thirds_));
}

TEST_P(ReadEnd, ForcedReleaseIsReportedToAllReaders) {
  // Renewals come later than the message.
  const auto lock = NewReadWrite(client_, LeaseOf(absl::Minutes(1)));
  const auto theirs_too = NewReadWrite(other_, LeaseOf(absl::Minutes(1)));
  std::optional<Lease> joined;
  lock->lock_shared();
  Crew().Start([&] { joined = *lock->AcquireRead(); });
  auto theirs = Must(theirs_too->AcquireRead());
  const std::stop_token tokens[] = {lock->current_read().lost(), joined->lost(), theirs.lost()};
  EXPECT_OK(thirds_->ForceRelease());
  for (const std::stop_token& lost : tokens) {
    EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  }
  EXPECT_FALSE(lock->current_read().valid());
  EXPECT_EQ(lock->read_hold_count(), 0);
  EXPECT_EQ(CodeOf(joined->Release()), kLost);
  EXPECT_EQ(CodeOf(theirs.Release()), kLost);
  EXPECT_TRUE(WritersSoonGetIn(*thirds_));
  lock->unlock_shared();
  EXPECT_EQ(recorder_->Count("misuse"), 0);
  const std::shared_lock again(*lock);
  EXPECT_TRUE(lock->current_read().valid());
}

TEST_P(ReadEnd, LossIsRememberedUntilUnlock) {
  lock_->lock_shared();
  const std::stop_token lost = lock_->current_read().lost();
  EXPECT_OK(thirds_->ForceRelease());
  ASSERT_TRUE(Await([&] { return lost.stop_requested(); }));
  // Neither client's readers join the other's.
  for (int i = 0; i < 5; ++i) {
    std::optional<Lease> first;
    std::optional<Lease> second;
    Crew().Start([&] { first = *lock_->AcquireRead(); });
    Crew().Start([&] { second = *lock_->AcquireRead({.lease = kEndLease}); });
  }
  lock_->unlock_shared();
  EXPECT_EQ(recorder_->Count("misuse"), 0);
  lock_->unlock_shared();
  EXPECT_TRUE(recorder_->Await("misuse", 1));
}

TEST_P(ReadEnd, LastObjectsDestructorEndsReads) {
  auto lock = NewReadWrite(other_);
  const auto same = NewReadWrite(other_);
  EXPECT_EQ(same->read_hold_count(), 0);  // the object has not been used yet
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

TEST_P(ReadEnd, StopOrDestructionCancelsWaitingRead) {
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

TEST_P(ReadEnd, LeaseThatOutlivesItsLockIsKnownToNext) {
  std::optional<Lease> lease = *NewReadWrite(client_)->AcquireRead();
  const auto lock = NewReadWrite(client_);
  EXPECT_EQ(lock->read_hold_count(), 1);
  EXPECT_EQ(CodeOf(lock->AcquireWrite({.wait = kTestTimeout})), kMisuse) << "it waits for itself";
  Crew crew;
  crew.Start([&] { EXPECT_OK(theirs_->AcquireWrite({.wait = kTestTimeout})); });
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_TRUE(lock->try_lock_shared());
  lease.reset();
  lock->unlock_shared();
}

TEST_P(ReadEnd, UnlockSharedWithoutReadIsMisuse) {
  lock_->unlock_shared();
  EXPECT_TRUE(recorder_->Await("misuse", 1));
  lock_->lock();
  lock_->unlock_shared();
  EXPECT_TRUE(recorder_->Await("misuse", 2));
  EXPECT_FALSE(ReadersGetIn(*theirs_));
  lock_->unlock();
  lock_->lock_shared();
  lock_->unlock();
  EXPECT_TRUE(recorder_->Await("misuse", 3));
  EXPECT_FALSE(WritersGetIn(*theirs_));
  Crew().Start([&] { lock_->unlock_shared(); });
  EXPECT_TRUE(recorder_->Await("misuse", 4));
  EXPECT_FALSE(WritersGetIn(*theirs_));
  lock_->unlock_shared();
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
  EXPECT_EQ(recorder_->Count("misuse"), 4);
}

// The opposite case is noticed only within one client, since readers do not write the main key.
TEST_P(ReadEnd, OtherClassOfLockIsMisuseForReaders) {
  std::shared_lock reading(*lock_);
  EXPECT_EQ(CodeOf(ReentrantLock(client_, kName, Options()).TryAcquire()), kMisuse);
  EXPECT_TRUE(lock_->current_read().valid());
  reading.unlock();
  {
    ReentrantLock foreign(other_, kName, Options());
    const auto held = Must(Try(foreign));
    EXPECT_EQ(CodeOf(TryRead(*lock_)), kMisuse);
    EXPECT_EQ(CodeOf(lock_->AcquireRead()), kMisuse);
    EXPECT_EQ(CodeOf(TryRead(*theirs_)), kMisuse);
    EXPECT_TRUE(held.valid());
  }
  EXPECT_TRUE(ReadersSoonGetIn(*lock_));
}

INSTANTIATE_CONFORMANCE(ReadEnd, ReadWriteCases());

// One thread uses both sides of a read-write lock: reentry, downgrade, and the refused upgrade.

struct ReadWriteReentry : ReadWriteConformance {
  // The calling thread reads.
  static void ExpectUpgradeIsRefused(Lock& lock) {
    try {
      lock.lock();
      FAIL() << "upgraded";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::resource_deadlock_would_occur) << error.what();
    }
    EXPECT_FALSE(lock.try_lock());
    EXPECT_FALSE(lock.try_lock_for(kAWhile));
    EXPECT_FALSE(lock.try_lock_until(std::chrono::steady_clock::now() + kAWhile));
    EXPECT_EQ(CodeOf(lock.Acquire()), kMisuse);
    EXPECT_EQ(CodeOf(lock.AcquireWrite({.wait = absl::FromChrono(kAWhile)})), kMisuse);
    EXPECT_EQ(CodeOf(lock.TryAcquire()), kMisuse);
    EXPECT_EQ(lock.hold_count(), 0);
  }

  static constexpr std::chrono::seconds kAWhile{5};
};

// To the server, a thread that lost its write is just another thread of its client.
TEST_P(ReadWriteReentry, LostWritersReadIsNotJoinedToAnother) {
  const auto lock = NewReadWrite(client_, LeaseOf(kLease / 4));
  Crew crew;
  std::atomic<bool> writing{false};
  {
    lock->lock();
    server().Command({"DEL", Key()});
    auto theirs = Must(theirs_->AcquireWrite());
    crew.Start([&] {
      const std::scoped_lock second(*lock);
      writing = true;
      // A reader that is wrongly admitted meanwhile fails the test.
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(kLease / 2));
      EXPECT_TRUE(lock->current().valid());
      writing = false;
    });
    crew.Start([&] {
      // One is the reader below; the other is the thread above, once it knows of the loss.
      EXPECT_TRUE(AwaitWaiting(2));
      EXPECT_OK(theirs.Release());
    });
    const std::shared_lock reading(*lock);
    EXPECT_FALSE(writing) << "reads while another thread writes";
  }
  lock->unlock();
}

TEST_P(ReadWriteReentry, WriterStillWritesAfterItsRead) {
  const std::scoped_lock writing(*lock_);
  {
    const std::scoped_lock again(*lock_);
    const std::shared_lock reading(*lock_);
    EXPECT_EQ(lock_->hold_count(), 2);
    EXPECT_EQ(lock_->read_hold_count(), 1);
    EXPECT_EQ(lock_->current_read().fencing_token(), lock_->current().fencing_token());
  }
  EXPECT_EQ(lock_->hold_count(), 1);
  EXPECT_EQ(lock_->read_hold_count(), 0);
  EXPECT_TRUE(lock_->current().valid());
  EXPECT_FALSE(ReadersGetIn(*theirs_));
  Crew().Start([&] { EXPECT_FALSE(ReadersGetIn(*lock_)); });
}

TEST_P(ReadWriteReentry, DowngradeAdmitsReadersButNoWriters) {
  std::unique_lock writing(*lock_);
  const FencingToken written = lock_->current().fencing_token();
  std::shared_lock reading(*lock_);
  EXPECT_FALSE(ReadersGetIn(*theirs_));
  writing.unlock();
  EXPECT_EQ(lock_->hold_count(), 0);
  EXPECT_EQ(lock_->read_hold_count(), 1);
  EXPECT_TRUE(lock_->current_read().valid());
  EXPECT_EQ(lock_->current_read().fencing_token(), written);
  absl::StatusOr<Lease> theirs;
  ASSERT_TRUE(Await([&] {  // the writer's release may be in flight
    theirs = TryRead(*theirs_);
    return theirs.ok();
  }));
  EXPECT_EQ(theirs->fencing_token(), written);
  Crew().Start([&] { EXPECT_TRUE(ReadersSoonGetIn(*lock_)); });
  EXPECT_FALSE(WritersGetIn(*thirds_));
  ExpectUpgradeIsRefused(*lock_);
  reading.unlock();
  EXPECT_EQ(lock_->read_hold_count(), 0);
}

TEST_P(ReadWriteReentry, DowngradedReadIsRenewedAndLostByForce) {
  const auto lock = NewReadWrite(client_, LeaseOf(absl::Seconds(1)));
  lock->lock();
  lock->lock_shared();
  lock->unlock();
  const int renewed = recorder_->Count("renewed");
  EXPECT_TRUE(recorder_->Await("renewed", renewed + 4));
  const Hold reading = lock->current_read();
  EXPECT_TRUE(reading.valid());
  EXPECT_OK(theirs_->ForceRelease());
  EXPECT_TRUE(Await([&] { return reading.lost().stop_requested(); }));
  lock->unlock_shared();
  EXPECT_EQ(recorder_->Count("misuse"), 0);
}

// Threads that pass a write on have tokens in reserve, which belong to no hold yet.
TEST_P(ReadWriteReentry, ReadWithinWriteHasTheWritesToken) {
  std::optional<Lease> held = *theirs_->AcquireWrite();
  Crew crew;
  crew.Start(4, [&](int) {
    std::unique_lock writing(*lock_);
    const FencingToken written = lock_->current().fencing_token();
    const std::shared_lock reading(*lock_);
    EXPECT_EQ(lock_->current_read().fencing_token(), written);
    writing.unlock();
    EXPECT_EQ(lock_->current_read().fencing_token(), written);
  });
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_OK(held->Release());
  crew.Join();
}

TEST_P(ReadWriteReentry, LossOfWriteIsLossOfItsRead) {
  lock_->lock();
  lock_->lock_shared();
  const std::stop_token lost[] = {lock_->current().lost(), lock_->current_read().lost()};
  EXPECT_OK(theirs_->ForceRelease());
  for (const std::stop_token& token : lost) {
    EXPECT_TRUE(Await([&] { return token.stop_requested(); }));
  }
  EXPECT_FALSE(lock_->current().valid());
  EXPECT_FALSE(lock_->current_read().valid());
  lock_->unlock();
  lock_->unlock_shared();
  EXPECT_EQ(recorder_->Count("misuse"), 0);
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
}

TEST_P(ReadWriteReentry, EveryCallRefusesUpgradeAtOnce) {
  const base::Instant began = base::Now();
  {
    const std::shared_lock reading(*lock_);
    ExpectUpgradeIsRefused(*lock_);
    EXPECT_EQ(lock_->Inspect()->waiting, 0);
    EXPECT_TRUE(lock_->current_read().valid());
  }
  {
    const auto lease = Must(lock_->AcquireRead());
    ExpectUpgradeIsRefused(*lock_);
    EXPECT_TRUE(lease.valid());
  }
  EXPECT_LT(base::Now() - began, absl::FromChrono(kAWhile));
  EXPECT_TRUE(WritersSoonGetIn(*lock_));
}

TEST_P(ReadWriteReentry, UpgradeIsRefusedToJoinedThread) {
  const std::shared_lock reading(*lock_);
  Crew().Start([&] {
    const std::shared_lock joined(*lock_);
    ExpectUpgradeIsRefused(*lock_);
  });
  // A thread that does not read may ask for the write, and the lock is busy.
  Crew().Start([&] { EXPECT_EQ(CodeOf(Try(*lock_)), kBusy); });
}

INSTANTIATE_CONFORMANCE(ReadWriteReentry, ReadWriteCases());

}  // namespace
}  // namespace redlatch::conformance
