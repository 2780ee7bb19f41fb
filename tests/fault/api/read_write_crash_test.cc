// Bars: what a process of readers and writers leaves behind when it is killed holds back the others
// for its own lease, or its wait marker's time, and 100 ms at most.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

constexpr absl::Duration kReadWriteLease = absl::Seconds(1);
constexpr absl::Duration kReadWriteGrace = absl::Milliseconds(100);
constexpr absl::Duration kReadWritePatience = absl::Seconds(10);

// A wait marker lives for three heartbeats of a writer that waits.
absl::Duration MarkersTime() { return 3 * std::min(kReadWriteLease / 3, absl::Seconds(2)); }

ReentrantReadWriteLock MakeLock(const std::string& url) {
  return ReentrantReadWriteLock(*Client::Connect(url), "lock", {.lease = kReadWriteLease});
}

// Reads, or writes, until it is told to go; its last words are the moment at which it began to.
REDLATCH_CHILD(ReadWriteHolder) {
  ReentrantReadWriteLock lock = MakeLock(args.at(0));
  const bool reads = args.at(1) == "read";
  absl::StatusOr<Lease> lease = reads ? lock.AcquireRead() : lock.AcquireWrite();
  EXPECT_TRUE(lease.ok()) << lease.status();
  parent.WriteLine("held");
  (void)parent.ReadLine(absl::Hours(1));
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(lease->Release().ok());
  parent.WriteLine(absl::StrCat(base::Now().nanos()));
  return 0;
}

class ReadWriteCrash : public ::testing::Test {
 protected:
  using Children = std::vector<std::unique_ptr<support::Child>>;

  std::unique_ptr<support::Child> Spawn(std::string_view side) {
    return support::SpawnChild("ReadWriteHolder", {server_->url(), std::string(side)});
  }
  Children SpawnReaders(int readers) {
    Children children;
    for (int i = 0; i < readers; ++i) children.push_back(Spawn("read"));
    for (const auto& child : children) EXPECT_EQ(child->pipe().ReadLine(), "held");
    return children;
  }
  // Returns the moment at which the last of them had gone.
  static base::Instant Dismiss(const Children& children) {
    base::Instant last;
    for (const auto& child : children) child->pipe().WriteLine("go");
    for (const auto& child : children) {
      const std::string words = child->pipe().ReadLine().value_or("0");
      last = std::max(last, base::Instant::FromNanos(std::stoll(words)));
      EXPECT_TRUE(child->Wait().success());
    }
    return last;
  }

  bool AwaitWaiting(int64_t clients) {
    return support::Await([&] {
      const absl::StatusOr<LockInfo> info = lock_.Inspect();
      return info.ok() && info->waiting == clients;
    });
  }
  static base::Instant Kill(support::Child& child) {
    const base::Instant now = base::Now();
    child.Kill();
    return now;
  }

  // Somebody who waits, in a thread and with a client of its own, and holds for no time.
  class Waiter {
   public:
    Waiter(const std::string& url, bool reads)
        : thread_([this, url, reads] {
            ReentrantReadWriteLock lock = MakeLock(url);
            const AcquireOptions options{.wait = kReadWritePatience};
            const auto lease = reads ? lock.AcquireRead(options) : lock.AcquireWrite(options);
            entered_ = base::Now().nanos();
            EXPECT_TRUE(lease.ok()) << lease.status();
          }) {}
    ~Waiter() { Join(); }

    // When it got in.
    base::Instant Join() {
      if (thread_.joinable()) thread_.join();
      return base::Instant::FromNanos(entered_);
    }

   private:
    std::atomic<int64_t> entered_{0};
    std::thread thread_;
  };

  void ExpectSoonAfter(base::Instant bound, base::Instant entered) {
    const absl::Duration late = entered - bound;
    punctuality_.Note(base::Now() - late);
    EXPECT_TRUE(punctuality_.Within(kReadWriteGrace));
    std::printf("in %s after the bound\n", absl::FormatDuration(late).c_str());
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  ReentrantReadWriteLock lock_{
      *Client::Connect(server_->url()), "lock", {.lease = kReadWriteLease}};
  redis::Punctuality punctuality_;
};

// The other seven go at once: the dead one's lease is what is left.
TEST_F(ReadWriteCrash, OfAReaderHoldsAWriterBackForNoLongerThanItsLease) {
  const auto victim = std::move(SpawnReaders(1)[0]);
  const Children others = SpawnReaders(7);
  Waiter writer(server_->url(), /*reads=*/false);
  ASSERT_TRUE(AwaitWaiting(1));
  base::Parker().ParkUntil(base::Now() +
                           kReadWriteLease / 2);  // a renewal moves the end of a lease
  const base::Instant killed = Kill(*victim);
  const base::Instant gone = Dismiss(others);
  ExpectSoonAfter(std::max(killed + kReadWriteLease, gone), writer.Join());
}

// The other seven go on, and renew: none of that is the dead one's.
TEST_F(ReadWriteCrash, OfAReaderIsForgottenWhileOthersGoOnReading) {
  const auto victim = std::move(SpawnReaders(1)[0]);
  const Children others = SpawnReaders(7);
  Waiter writer(server_->url(), /*reads=*/false);
  ASSERT_TRUE(AwaitWaiting(1));
  const base::Instant killed = Kill(*victim);
  base::Parker().ParkUntil(killed + 2 * kReadWriteLease);
  EXPECT_TRUE(AwaitWaiting(1));
  const base::Instant gone = Dismiss(others);
  ExpectSoonAfter(gone, writer.Join());
}

// The other seven go shortly before the dead one's lease ends, when the writer's latest heartbeat
// has still found them.
TEST_F(ReadWriteCrash, OfAReaderIsNoticedInTimeThoughOthersGoShortlyBeforeItsLeaseEnds) {
  const Children others = SpawnReaders(7);
  const auto victim = std::move(SpawnReaders(1)[0]);
  const base::Instant killed = Kill(*victim);
  base::Parker().ParkUntil(killed + 0.2 * kReadWriteLease);
  Waiter writer(server_->url(), /*reads=*/false);
  ASSERT_TRUE(AwaitWaiting(1));
  base::Parker().ParkUntil(killed + 0.93 * kReadWriteLease);
  const base::Instant gone = Dismiss(others);
  ExpectSoonAfter(std::max(killed + kReadWriteLease, gone), writer.Join());
}

TEST_F(ReadWriteCrash, OfTheOnlyReaderLetsTheWriterInWhenItsLeaseIsOver) {
  const auto victim = std::move(SpawnReaders(1)[0]);
  Waiter writer(server_->url(), /*reads=*/false);
  ASSERT_TRUE(AwaitWaiting(1));
  const base::Instant killed = Kill(*victim);
  ExpectSoonAfter(killed + kReadWriteLease, writer.Join());
}

TEST_F(ReadWriteCrash, OfAWaitingWriterHoldsReadersBackForNoLongerThanItsMarker) {
  const Children reading = SpawnReaders(1);
  const auto victim = Spawn("write");
  ASSERT_TRUE(AwaitWaiting(1));
  Waiter reader(server_->url(), /*reads=*/true);
  ASSERT_TRUE(AwaitWaiting(2));
  const base::Instant killed = Kill(*victim);
  ExpectSoonAfter(killed + MarkersTime(), reader.Join());
  // Whoever comes now does not even wait.
  EXPECT_TRUE(lock_.AcquireRead({.wait = kReadWriteGrace}).ok());
  (void)Dismiss(reading);
}

TEST_F(ReadWriteCrash, OfAWaitingWriterIsForgottenThoughNobodyElseWaits) {
  const Children reading = SpawnReaders(1);
  const auto victim = Spawn("write");
  ASSERT_TRUE(AwaitWaiting(1));
  const base::Instant killed = Kill(*victim);
  base::Parker().ParkUntil(killed + MarkersTime() + kReadWriteGrace);
  EXPECT_TRUE(lock_.AcquireRead({.wait = kReadWriteGrace}).ok());
  (void)Dismiss(reading);
}

TEST_F(ReadWriteCrash, OfAHoldingWriterLetsAllReadersInWhenItsLeaseIsOver) {
  const auto victim = Spawn("write");
  ASSERT_EQ(victim->pipe().ReadLine(), "held");
  Waiter first(server_->url(), /*reads=*/true);
  Waiter second(server_->url(), /*reads=*/true);
  ASSERT_TRUE(AwaitWaiting(2));
  const base::Instant killed = Kill(*victim);
  ExpectSoonAfter(killed + kReadWriteLease, std::max(first.Join(), second.Join()));
}

TEST_F(ReadWriteCrash, OfAHoldingWriterLetsTheNextWriterInWhenItsLeaseIsOver) {
  const auto victim = Spawn("write");
  ASSERT_EQ(victim->pipe().ReadLine(), "held");
  Waiter writer(server_->url(), /*reads=*/false);
  ASSERT_TRUE(AwaitWaiting(1));
  const base::Instant killed = Kill(*victim);
  ExpectSoonAfter(killed + kReadWriteLease, writer.Join());
}

}  // namespace
}  // namespace redlatch
