// Who goes first, readers or writers: wait markers, hand-over, and the two policies.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"
#include "src/base/mutex.h"
#include "tests/conformance/api/read_write/fixture.h"

namespace redlatch::conformance {
namespace {

// Writes down who gets in, in that order.
class Order {
 public:
  void Note(std::string who) {
    const base::MutexLock lock(mu_);
    order_.push_back(std::move(who));
  }
  std::vector<std::string> Get() const {
    const base::MutexLock lock(mu_);
    return order_;
  }

 private:
  mutable base::Mutex mu_;
  std::vector<std::string> order_ ABSL_GUARDED_BY(mu_);
};

using Names = std::vector<std::string>;

class ReadWritePolicy : public ReadWriteConformance {
 protected:
  // Each in a thread of its own, which notes the name when it is in, and then goes.
  void StartReader(Crew& crew, Lock& lock, const std::string& name) {
    crew.Start([this, &lock, name] {
      const auto lease = lock.AcquireRead({.wait = kPatience});
      ASSERT_OK(lease);
      order_.Note(name);
    });
  }
  void StartWriter(Crew& crew, Lock& lock, const std::string& name,
                   const std::stop_token& stop = {}) {
    crew.Start([this, &lock, name, stop] {
      const auto lease = lock.AcquireWrite({.wait = kPatience, .stop = stop});
      if (stop.stop_requested()) return;
      ASSERT_OK(lease);
      order_.Note(name);
    });
  }

  Order order_;
};

TEST_P(ReadWritePolicy, ReadersThatAskAfterAWriterIsQueuedComeAfterIt) {
  std::optional<Lease> reading = *lock_->AcquireRead();
  Crew crew;
  StartWriter(crew, *theirs_, "writer");
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_EQ(CodeOf(TryRead(*thirds_)), kBusy);
  StartReader(crew, *thirds_, "reader");
  ASSERT_TRUE(AwaitWaiting(2));
  EXPECT_EQ(order_.Get(), Names());
  EXPECT_OK(reading->Release());
  crew.Join();
  EXPECT_EQ(order_.Get(), (Names{"writer", "reader"}));
}

TEST_P(ReadWritePolicy, ReadersOfAClientThatReadsComeAfterTheWriterTooOnceTheWindowIsOver) {
  std::optional<Lease> reading = *lock_->AcquireRead();
  Crew crew;
  StartWriter(crew, *theirs_, "writer");
  ASSERT_TRUE(AwaitWaiting(1));
  PassLocalWindow();
  Crew().Start([&] { EXPECT_EQ(CodeOf(TryRead(*lock_)), kBusy); });
  StartReader(crew, *lock_, "reader");
  Crew().Start(
      [&] { EXPECT_EQ(CodeOf(lock_->AcquireRead({.wait = absl::Milliseconds(20)})), kBusy); });
  EXPECT_EQ(order_.Get(), Names());
  EXPECT_TRUE(reading->valid());
  EXPECT_OK(reading->Release());
  crew.Join();
  EXPECT_EQ(order_.Get(), (Names{"writer", "reader"}));
}

TEST_P(ReadWritePolicy, ReadersAlsoComeAfterAWriterOfTheirOwnClient) {
  std::optional<Lease> reading = *lock_->AcquireRead();
  Crew crew;
  StartWriter(crew, *theirs_, "writer");
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_EQ(CodeOf(TryRead(*theirs_)), kBusy);
  EXPECT_EQ(CodeOf(theirs_->AcquireRead({.wait = absl::Milliseconds(20)})), kBusy);
  EXPECT_OK(reading->Release());
  crew.Join();
  EXPECT_TRUE(ReadersSoonGetIn(*theirs_));
}

TEST_P(ReadWritePolicy, AWritersReleaseLetsAllReadersInThatWait) {
  constexpr int kReaders = 3;
  std::vector<Client> clients;
  for (int i = 0; i < kReaders; ++i) clients.push_back(NewClient());
  std::optional<Lease> writing = *lock_->AcquireWrite();
  std::atomic<int> inside{0};
  Crew crew;
  for (const Client& client : clients) {
    crew.Start(2, [&](int) {
      const auto lease = NewReadWrite(client)->AcquireRead({.wait = kPatience});
      ASSERT_OK(lease);
      ++inside;
      // All of them at the same time.
      EXPECT_TRUE(Await([&] { return inside == 2 * kReaders; }));
      EXPECT_TRUE(lease->valid());
    });
  }
  ASSERT_TRUE(AwaitWaiting(2 * kReaders));
  const base::Instant released = base::Now();
  EXPECT_OK(writing->Release());
  crew.Join();
  EXPECT_LT(base::Now() - released, kSoon);  // no heartbeat was needed
}

TEST_P(ReadWritePolicy, AWritersReleaseLetsTheNextWriterInBeforeReadersThatAskedEarlier) {
  std::optional<Lease> writing = *lock_->AcquireWrite();
  Crew crew;
  StartReader(crew, *theirs_, "reader");
  ASSERT_TRUE(AwaitWaiting(1));
  StartWriter(crew, *thirds_, "writer");
  ASSERT_TRUE(AwaitWaiting(2));
  EXPECT_OK(writing->Release());
  crew.Join();
  EXPECT_EQ(order_.Get(), (Names{"writer", "reader"}));
}

TEST_P(ReadWritePolicy, AWriterThatIsStoppedLetsReadersGoOnAtOnce) {
  const auto reading = lock_->AcquireRead();
  ASSERT_OK(reading);
  std::stop_source stop;
  Crew writer;
  StartWriter(writer, *theirs_, "writer", stop.get_token());
  ASSERT_TRUE(AwaitWaiting(1));
  Crew crew;
  StartReader(crew, *thirds_, "reader");
  ASSERT_TRUE(AwaitWaiting(2));
  const base::Instant stopped = base::Now();
  stop.request_stop();
  crew.Join();
  EXPECT_LT(base::Now() - stopped, kSoon);
  EXPECT_EQ(order_.Get(), Names{"reader"});
  EXPECT_TRUE(ReadersSoonGetIn(*thirds_));
  EXPECT_TRUE(reading->valid());
}

TEST_P(ReadWritePolicy, AWriterWhoseWaitIsOverLetsReadersGoOnAtOnce) {
  const auto reading = lock_->AcquireRead();
  ASSERT_OK(reading);
  std::atomic<int64_t> gave_up{0};
  Crew crew;
  crew.Start([&] {
    EXPECT_EQ(CodeOf(theirs_->AcquireWrite({.wait = kLease / 2})), kBusy);
    gave_up = base::Now().nanos();
  });
  ASSERT_TRUE(AwaitWaiting(1));
  const auto lease = thirds_->AcquireRead({.wait = kPatience});
  const base::Instant got = base::Now();
  EXPECT_OK(lease);
  crew.Join();
  EXPECT_LT(got - base::Instant::FromNanos(gave_up), kSoon);
  EXPECT_TRUE(reading->valid());
}

TEST_P(ReadWritePolicy, OfTwoWritersThatWaitOneStillHoldsReadersBackWhenTheOtherGivesUp) {
  std::optional<Lease> reading = *lock_->AcquireRead();
  const auto second = NewReadWrite(NewClient());
  std::stop_source stop;
  Crew crew;
  StartWriter(crew, *theirs_, "first", stop.get_token());
  ASSERT_TRUE(AwaitWaiting(1));
  StartWriter(crew, *second, "second");
  ASSERT_TRUE(AwaitWaiting(2));
  stop.request_stop();
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_EQ(CodeOf(TryRead(*thirds_)), kBusy);
  EXPECT_OK(reading->Release());
  crew.Join();
  EXPECT_EQ(order_.Get(), Names{"second"});
  EXPECT_TRUE(ReadersSoonGetIn(*thirds_));
}

TEST_P(ReadWritePolicy, PhaseFairReadersThatWaitedThroughAWriteGoBeforeTheNext) {
  const auto mine = NewReadWrite(NewClient(), Policy::kPhaseFair);
  const auto second = NewReadWrite(NewClient(), Policy::kPhaseFair);
  const auto readers = NewReadWrite(NewClient(), Policy::kPhaseFair);
  std::optional<Lease> writing = *mine->AcquireWrite();
  Crew crew;
  StartWriter(crew, *second, "writer");
  ASSERT_TRUE(AwaitWaiting(1));
  StartReader(crew, *readers, "reader");
  ASSERT_TRUE(AwaitWaiting(2));
  EXPECT_OK(writing->Release());
  crew.Join();
  EXPECT_EQ(order_.Get(), (Names{"reader", "writer"}));
}

TEST_P(ReadWritePolicy, PhaseFairReadersThatAskWhileOthersReadStillComeAfterTheWriter) {
  const auto mine = NewReadWrite(NewClient(), Policy::kPhaseFair);
  const auto writer = NewReadWrite(NewClient(), Policy::kPhaseFair);
  const auto late = NewReadWrite(NewClient(), Policy::kPhaseFair);
  std::optional<Lease> reading = *mine->AcquireRead();
  Crew crew;
  StartWriter(crew, *writer, "writer");
  ASSERT_TRUE(AwaitWaiting(1));
  StartReader(crew, *late, "reader");
  ASSERT_TRUE(AwaitWaiting(2));
  EXPECT_OK(reading->Release());
  crew.Join();
  EXPECT_EQ(order_.Get(), (Names{"writer", "reader"}));
}

TEST_P(ReadWritePolicy, PhaseFairReadersAreNotStarvedByAStreamOfWriters) {
  std::atomic<bool> over{false};
  std::atomic<int> writes{0};
  Crew writers;
  const Client clients[] = {NewClient(), NewClient(), NewClient()};
  for (const Client& client : clients) {
    writers.Start([&] {
      const auto lock = NewReadWrite(client, Policy::kPhaseFair);
      while (!over) {
        const auto lease = lock->AcquireWrite({.wait = kPatience});
        EXPECT_OK(lease);
        ++writes;
      }
    });
  }
  const auto reader = NewReadWrite(NewClient(), Policy::kPhaseFair);
  EXPECT_TRUE(Await([&] { return writes > 10; }));
  for (int i = 0; i < 20; ++i) EXPECT_OK(reader->AcquireRead({.wait = kPatience}));
  over = true;
}

TEST_P(ReadWritePolicy, DowngradeLetsWaitingReadersInWhereNoWriterWaits) {
  for (const Policy policy : {Policy::kWriterFirst, Policy::kPhaseFair}) {
    const auto mine = NewReadWrite(NewClient(), policy);
    const auto readers = NewReadWrite(NewClient(), policy);
    mine->lock();
    Crew crew;
    StartReader(crew, *readers, "reader");
    ASSERT_TRUE(AwaitWaiting(1));
    mine->lock_shared();
    const base::Instant downgraded = base::Now();
    mine->unlock();
    crew.Join();
    EXPECT_LT(base::Now() - downgraded, kSoon);
    EXPECT_TRUE(mine->current_read().valid());
    mine->unlock_shared();
  }
}

TEST_P(ReadWritePolicy, DowngradeWhileAWriterWaitsLetsReadersInWherePhasesAreFair) {
  for (const Policy policy : {Policy::kWriterFirst, Policy::kPhaseFair}) {
    const bool fair = policy == Policy::kPhaseFair;
    const auto mine = NewReadWrite(NewClient(), policy);
    const auto readers = NewReadWrite(NewClient(), policy);
    const auto writer = NewReadWrite(NewClient(), policy);
    mine->lock();
    Crew crew;
    StartReader(crew, *readers, fair ? "fair reader" : "reader");
    ASSERT_TRUE(AwaitWaiting(1));
    StartWriter(crew, *writer, fair ? "fair writer" : "writer");
    ASSERT_TRUE(AwaitWaiting(2));
    mine->lock_shared();
    mine->unlock();
    if (fair) {
      EXPECT_TRUE(AwaitWaiting(1));  // the reader is in, beside this one
    } else {
      EXPECT_EQ(lock_->Inspect()->waiting, 2);
    }
    mine->unlock_shared();
    crew.Join();
  }
  EXPECT_EQ(order_.Get(), (Names{"writer", "reader", "fair reader", "fair writer"}));
}

INSTANTIATE_FOR_READ_WRITE(ReadWritePolicy);

}  // namespace
}  // namespace redlatch::conformance
