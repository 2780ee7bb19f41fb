// The two sides of a read-write lock: who excludes whom, std's guards, leases and tokens.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <vector>

#include "gtest/gtest.h"
#include "redlatch/status.h"
#include "tests/conformance/api/read_write/fixture.h"
#include "tests/support/punctuality.h"

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

TEST_P(ReadWrite, AWriterExcludesReadersAndWriters) {
  {
    const std::scoped_lock writing(*lock_);
    EXPECT_FALSE(ReadersGetIn(*theirs_));
    EXPECT_FALSE(WritersGetIn(*theirs_));
    EXPECT_EQ(CodeOf(theirs_->AcquireRead({.wait = absl::Milliseconds(5)})), kBusy);
    Crew().Start([&] {
      EXPECT_FALSE(ReadersGetIn(*lock_));
      EXPECT_FALSE(WritersGetIn(*lock_));
    });
  }
  EXPECT_TRUE(ReadersSoonGetIn(*theirs_));
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
}

TEST_P(ReadWrite, AReaderExcludesWritersUntilTheLastHasGone) {
  std::shared_lock first(*lock_);
  std::shared_lock second(*theirs_);
  EXPECT_FALSE(WritersGetIn(*thirds_));
  Crew().Start([&] { EXPECT_FALSE(WritersGetIn(*lock_)); });
  first.unlock();
  EXPECT_FALSE(WritersGetIn(*thirds_));
  second.unlock();
  EXPECT_TRUE(WritersSoonGetIn(*thirds_));
}

TEST_P(ReadWrite, ThreadsOfOneClientReadUntilTheLastHasGone) {
  std::atomic<bool> go{false};
  std::atomic<int> reading{0};
  Crew crew;
  crew.Start(3, [&](int) {
    const std::shared_lock guard(*lock_);
    ++reading;
    EXPECT_TRUE(Await([&] { return go.load(); }));
  });
  ASSERT_TRUE(Await([&] { return reading == 3; }));
  { const std::shared_lock guard(*lock_); }
  EXPECT_FALSE(WritersGetIn(*theirs_));
  go = true;
  crew.Join();
  EXPECT_TRUE(WritersSoonGetIn(*theirs_));
}

TEST_P(ReadWrite, AReaderWaitsForTheWriterAndAWriterForTheReaders) {
  std::optional<Lease> held = *theirs_->AcquireWrite();
  Crew crew;
  crew.Start([&] { EXPECT_OK(lock_->AcquireRead({.wait = kPatience})); });
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_OK(held->Release());
  crew.Join();
  held = *theirs_->AcquireRead();
  crew.Start([&] { EXPECT_OK(lock_->AcquireWrite({.wait = kPatience})); });
  ASSERT_TRUE(AwaitWaiting(1));
  const base::Instant released = base::Now();
  EXPECT_OK(held->Release());
  crew.Join();
  EXPECT_LT(base::Now() - released, kSoon);
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

TEST_P(ReadWrite, TimedReadsKeepToTheClockThatTheyAreGiven) {
  const std::scoped_lock writing(*theirs_);
  const auto steady = steady_clock::now() + milliseconds(30);
  EXPECT_FALSE(lock_->try_lock_shared_until(steady));
  EXPECT_GE(steady_clock::now(), steady);
  const auto wall = system_clock::now() + milliseconds(30);
  EXPECT_FALSE(lock_->try_lock_shared_until(wall));
  EXPECT_GE(system_clock::now(), wall);
  EXPECT_FALSE(lock_->try_lock_shared_until(steady_clock::now() - std::chrono::hours(1)));
  EXPECT_FALSE(lock_->try_lock_shared_for(milliseconds(-5)));
  EXPECT_FALSE(lock_->try_lock_shared_for(std::chrono::duration<double>(0.002)));
  redlatch::redis::Punctuality punctuality;
  const base::Instant deadline = base::Now() + absl::Milliseconds(20);
  EXPECT_EQ(CodeOf(lock_->AcquireRead({.wait = absl::Milliseconds(20)})), kBusy);
  EXPECT_GE(base::Now(), deadline);
  punctuality.Note(deadline);
  EXPECT_TRUE(punctuality.Within(kGrace));
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

TEST_P(ReadWrite, AWaitingReaderIsStoppedByItsStopToken) {
  const std::scoped_lock writing(*theirs_);
  std::stop_source stop;
  Crew crew;
  crew.Start(
      [&] { EXPECT_EQ(CodeOf(lock_->AcquireRead({.stop = stop.get_token()})), kCancelled); });
  ASSERT_TRUE(AwaitWaiting(1));
  stop.request_stop();
  crew.Join();
  EXPECT_TRUE(AwaitWaiting(0));
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

TEST_P(ReadWrite, ReadWithoutLeaseTurnsAManualReadIntoARenewedOne) {
  auto manual = lock_->AcquireRead({.lease = absl::Seconds(5)});
  ASSERT_OK(manual);
  const base::Instant until = base::Now() + manual->remaining() + absl::Milliseconds(1);
  lock_->lock_shared();
  EXPECT_TRUE(Await([&] { return base::Now() + lock_->current_read().remaining() > until; }));
  lock_->unlock_shared();
  EXPECT_TRUE(manual->valid());
}

TEST_P(ReadWrite, AReaderCarriesTheTokenOfTheLastWrite) {
  EXPECT_GT(TryRead(*lock_)->fencing_token(), FencingToken()) << "there was no write before";
  FencingToken last;
  for (Lock* const writer : {lock_.get(), theirs_.get(), lock_.get()}) {
    auto written = writer->Acquire({.wait = kPatience});
    ASSERT_OK(written);
    EXPECT_GT(written->fencing_token(), last);
    last = written->fencing_token();
    EXPECT_OK(written->Release());
    for (Lock* const reader : {lock_.get(), theirs_.get(), thirds_.get()}) {
      const auto read = TryRead(*reader);
      ASSERT_OK(read);
      EXPECT_EQ(read->fencing_token(), last);
    }
  }
  const std::shared_lock reading(*lock_);
  EXPECT_EQ(lock_->current_read().fencing_token(), last);
  Crew().Start([&] { EXPECT_EQ(TryRead(*lock_)->fencing_token(), last); });
}

INSTANTIATE_FOR_READ_WRITE(ReadWrite);

}  // namespace
}  // namespace redlatch::conformance
