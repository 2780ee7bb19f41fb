// Many readers and writers at the same time: what must hold in any order that comes of it.
//
//   REDLATCH_FULL_BARS=1   100,000 reads behind a writer that waits, instead of a few
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/read_write/fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

// What one may write and many may read.
class Shelf {
 public:
  void Write(const Hold& hold) {
    EXPECT_FALSE(writing_.exchange(true)) << "two writers at a time";
    EXPECT_EQ(readers_, 0) << "a writer came to a reader";
    EXPECT_TRUE(hold.valid());
    EXPECT_GT(hold.fencing_token().value(), token_.load());
    token_ = hold.fencing_token().value();
    std::this_thread::yield();
    EXPECT_EQ(readers_, 0) << "a reader came to a writer";
    ++writes_;
    writing_ = false;
  }
  void Read(const Hold& hold) {
    ++readers_;
    EXPECT_FALSE(writing_) << "a reader with a writer";
    EXPECT_TRUE(hold.valid());
    const uint64_t token = hold.fencing_token().value();
    EXPECT_GT(token, 0);
    uint64_t none = 0;
    token_.compare_exchange_strong(none, token);  // before any write, it is the first reader's
    EXPECT_EQ(token, token_.load()) << "neither of the last write nor of the first read";
    std::this_thread::yield();
    ++reads_;
    --readers_;
  }
  int64_t writes() const { return writes_; }
  int64_t reads() const { return reads_; }

 private:
  std::atomic<bool> writing_{false};
  std::atomic<int> readers_{0};
  std::atomic<uint64_t> token_{0};
  std::atomic<int64_t> writes_{0};
  std::atomic<int64_t> reads_{0};
};

class ReadWriteTurmoil : public ReadWriteConformance {
 protected:
  // Three threads of each of three clients, on a new lock.
  void TakeTurns(Policy policy) {
    server().Command({"FLUSHALL"});
    const Client clients[] = {NewClient(), NewClient(), NewClient()};
    const int turns = support::Scaled(60);
    Shelf shelf;
    std::atomic<int64_t> downgrades{0};
    Crew crew;
    for (const Client& client : clients) {
      crew.Start(3, [&](int seed) {
        const auto lock = NewReadWrite(client, policy);
        std::minstd_rand dice(static_cast<unsigned>(seed) + 1);
        for (int i = 0; i < turns; ++i) {
          const auto draw = dice() % 10;
          if (draw < 7) {
            const std::shared_lock reading(*lock);
            shelf.Read(lock->current_read());
            continue;
          }
          std::unique_lock writing(*lock);
          shelf.Write(lock->current());
          if (draw < 9) continue;
          const std::shared_lock downgraded(*lock);
          writing.unlock();
          ++downgrades;
          shelf.Read(lock->current_read());
        }
      });
    }
    crew.Join();
    EXPECT_EQ(shelf.reads() + shelf.writes() - downgrades, 9 * turns);
  }
};

TEST_P(ReadWriteTurmoil, ReadersAndWritersOfManyClientsAndThreadsTakeTurns) {
  TakeTurns(Policy::kWriterFirst);
}

TEST_P(ReadWriteTurmoil, ReadersAndWritersTakeTurnsWherePhasesAreFair) {
  TakeTurns(Policy::kPhaseFair);
}

TEST_P(ReadWriteTurmoil, NoReaderThatAsksAfterAWriterWasQueuedEntersBeforeIt) {
  constexpr int kReaders = 8;
  const bool windowless = Options().local_window == absl::ZeroDuration();
  const int64_t full = windowless ? 100'000 : 1'000;
  const int64_t reads = support::FullBars() ? full : support::Scaled(20 * kReaders);
  std::atomic<int> queued{0};      // the last round whose writer is queued
  std::atomic<int> entered{0};     // the last round whose writer has got in
  std::atomic<int64_t> behind{0};  // reads that asked while a writer was queued
  std::atomic<bool> over{false};
  Crew readers;
  readers.Start(kReaders, [&](int i) {
    Lock& lock = i % 2 == 0 ? *lock_ : *thirds_;
    for (int round = 0; true; ++round) {
      queued.wait(round);
      if (over) return;
      const auto lease = lock.AcquireRead({.wait = kPatience});
      EXPECT_OK(lease);
      EXPECT_GT(entered, round);
      ++behind;
    }
  });
  for (int round = 1; behind < reads && !HasFailure(); ++round) {
    // Keeps the writer waiting. Its client's other readers could join it.
    auto reading = lock_->AcquireRead({.wait = kPatience});
    ASSERT_OK(reading);
    Crew writer;
    writer.Start([&] {
      const auto lease = theirs_->AcquireWrite({.wait = kPatience});
      EXPECT_OK(lease);
      entered = round;
    });
    EXPECT_TRUE(Await([&] { return server().Integer({"ZCARD", Auxiliary("writers")}) == 1; }));
    PassLocalWindow();
    queued = round;
    queued.notify_all();
    EXPECT_TRUE(Await([&] { return server().Integer({"ZCARD", Auxiliary("queue")}) == kReaders; }));
    EXPECT_OK(reading->Release());
    writer.Join();
    EXPECT_TRUE(Await([&] { return behind == int64_t{round} * kReaders; }));
  }
  over = true;
  ++queued;
  queued.notify_all();
}

INSTANTIATE_FOR_READ_WRITE(ReadWriteTurmoil);

}  // namespace
}  // namespace redlatch::conformance
