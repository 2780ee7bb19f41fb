// One thread and both sides of a read-write lock: holding once more, downgrade, and why there is no
// upgrade.
#include <shared_mutex>

#include "tests/conformance/api/read_write/fixture.h"

namespace redlatch::conformance {
namespace {

class ReadWriteReentry : public ReadWriteConformance {
 protected:
  // By the calling thread, which reads.
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

TEST_P(ReadWriteReentry, AReaderReadsOnceMoreThoughAWriterWaits) {
  std::shared_lock reading(*lock_);
  Crew crew;
  crew.Start([&] { EXPECT_OK(theirs_->AcquireWrite({.wait = kPatience})); });
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_FALSE(ReadersGetIn(*thirds_));
  {
    const std::shared_lock again(*lock_);
    EXPECT_TRUE(lock_->try_lock_shared());
    lock_->unlock_shared();
    EXPECT_OK(lock_->AcquireRead({.wait = absl::ZeroDuration()}));
    EXPECT_EQ(lock_->read_hold_count(), 2);
  }
  EXPECT_TRUE(AwaitWaiting(1));
  reading.unlock();
}

// A thread whose write was taken from it is, to the server, no more than another of its client.
TEST_P(ReadWriteReentry, WhoCameToReadUnderAWriteThatWasLostIsNotLetInUnderAnothers) {
  const auto lock = NewReadWrite(client_, LeaseOf(kLease / 4));
  Crew crew;
  std::atomic<bool> writing{false};
  {
    lock->lock();
    server().Command({"DEL", Key()});
    auto theirs = theirs_->AcquireWrite();
    ASSERT_OK(theirs);
    crew.Start([&] {
      const std::scoped_lock second(*lock);
      writing = true;
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(kLease / 2));
      EXPECT_TRUE(lock->current().valid());
      writing = false;
    });
    crew.Start([&] {
      // Of the reader below, and of the thread above once it knows of the loss.
      EXPECT_TRUE(AwaitWaiting(2));
      EXPECT_OK(theirs->Release());
    });
    const std::shared_lock reading(*lock);
    EXPECT_FALSE(writing) << "reads while another thread writes";
  }
  lock->unlock();
}

TEST_P(ReadWriteReentry, AWriterThatReadsStillWritesWhenItReadsNoMore) {
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

TEST_P(ReadWriteReentry, DowngradeGoesOnReadingWithOtherReadersAndWithoutWriters) {
  std::unique_lock writing(*lock_);
  const FencingToken written = lock_->current().fencing_token();
  std::shared_lock reading(*lock_);
  EXPECT_FALSE(ReadersGetIn(*theirs_));
  writing.unlock();
  EXPECT_EQ(lock_->hold_count(), 0);
  EXPECT_EQ(lock_->read_hold_count(), 1);
  EXPECT_TRUE(lock_->current_read().valid());
  EXPECT_EQ(lock_->current_read().fencing_token(), written);
  const auto theirs = TryRead(*theirs_);
  ASSERT_OK(theirs);
  EXPECT_EQ(theirs->fencing_token(), written);
  Crew().Start([&] { EXPECT_TRUE(ReadersSoonGetIn(*lock_)); });
  EXPECT_FALSE(WritersGetIn(*thirds_));
  ExpectUpgradeIsRefused(*lock_);
  reading.unlock();
  EXPECT_EQ(lock_->read_hold_count(), 0);
}

TEST_P(ReadWriteReentry, AReadThatADowngradeLeftIsRenewedAndLostByForce) {
  const auto lock = NewReadWrite(client_, LeaseOf(absl::Milliseconds(200)));
  lock->lock();
  lock->lock_shared();
  lock->unlock();
  const int renewed = heard_->Count("renewed");
  EXPECT_TRUE(heard_->Await("renewed", renewed + 5));
  const Hold reading = lock->current_read();
  EXPECT_TRUE(reading.valid());
  EXPECT_OK(theirs_->ForceRelease());
  EXPECT_TRUE(Await([&] { return reading.lost().stop_requested(); }));
  lock->unlock_shared();
  EXPECT_EQ(heard_->Count("misuse"), 0);
}

// Those who pass a write on among themselves have tokens in reserve, which are nobody's yet.
TEST_P(ReadWriteReentry, AReadWithinAWriteHasItsTokenThoughOthersOfTheClientWait) {
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

TEST_P(ReadWriteReentry, ALossOfTheWriteIsALossOfTheReadInIt) {
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
  EXPECT_EQ(heard_->Count("misuse"), 0);
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
}

TEST_P(ReadWriteReentry, UpgradeIsRefusedAtOnceByEveryFace) {
  const base::Instant began = base::Now();
  {
    const std::shared_lock reading(*lock_);
    ExpectUpgradeIsRefused(*lock_);
    EXPECT_EQ(lock_->Inspect()->waiting, 0);
    EXPECT_TRUE(lock_->current_read().valid());
  }
  {
    const auto lease = lock_->AcquireRead();
    ASSERT_OK(lease);
    ExpectUpgradeIsRefused(*lock_);
    EXPECT_TRUE(lease->valid());
  }
  EXPECT_LT(base::Now() - began, absl::FromChrono(kAWhile));
  EXPECT_TRUE(WritersSoonGetIn(*lock_));
}

TEST_P(ReadWriteReentry, UpgradeIsRefusedToAThreadThatJoined) {
  const std::shared_lock reading(*lock_);
  Crew().Start([&] {
    const std::shared_lock joined(*lock_);
    ExpectUpgradeIsRefused(*lock_);
  });
  // Whoever does not read may ask, and is busy.
  Crew().Start([&] { EXPECT_EQ(CodeOf(Try(*lock_)), kBusy); });
}

INSTANTIATE_CONFORMANCE(ReadWriteReentry, ReadWriteCases());

}  // namespace
}  // namespace redlatch::conformance
