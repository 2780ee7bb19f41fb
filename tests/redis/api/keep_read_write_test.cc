// LockOptions::keep of a read-write lock: reads and writes that stay with their client.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/lock_keys.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using support::TimeOf;

const LockOptions kKeptReads{.keep = absl::Seconds(20)};
// Far less than a heartbeat, and than the time for which it is kept.
constexpr absl::Duration kReadersMoment = absl::Seconds(1);

class KeepReadWrite : public ::testing::Test {
 protected:
  int64_t Readers() {
    return server_->Integer({"ZCARD", support::AuxiliaryKey("lock", "rw.readers")});
  }
  bool IsWritten() { return server_->Integer({"EXISTS", "lock"}) == 1; }
  int64_t Calls() {
    int64_t calls = 0;
    const std::string stats = server_->Text({"INFO", "commandstats"});
    for (const std::string command : {"eval", "evalsha"}) {
      const std::string name = "cmdstat_" + command + ":calls=";
      const size_t at = stats.find(name);
      if (at != stats.npos) calls += std::stoll(stats.substr(at + name.size()));
    }
    return calls;
  }
  static void Read(ReentrantReadWriteLock& lock) {
    lock.lock_shared();
    lock.unlock_shared();
  }
  static void Write(ReentrantReadWriteLock& lock) {
    lock.lock();
    lock.unlock();
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  Client client_ = Connect(server_->url());
  Client other_ = Connect(server_->url());
  ReentrantReadWriteLock lock_{client_, "lock", kKeptReads};
  ReentrantReadWriteLock theirs_{other_, "lock"};
};

TEST_F(KeepReadWrite, ReadsAreTakenAgainWithoutTheServer) {
  Read(lock_);
  EXPECT_EQ(Readers(), 1);
  const int64_t before = Calls();
  for (int i = 0; i < 100; ++i) Read(lock_);
  std::thread([&] { Read(lock_); }).join();
  { EXPECT_TRUE(lock_.AcquireRead().ok()); }
  EXPECT_TRUE(lock_.try_lock_shared());
  lock_.unlock_shared();
  EXPECT_EQ(Calls(), before);
  EXPECT_EQ(Readers(), 1);
}

TEST_F(KeepReadWrite, ThreadsReadBesideEachOtherWithoutTheServer) {
  Read(lock_);
  Read(lock_);
  const int64_t before = Calls();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        lock_.lock_shared();
        lock_.lock_shared();
        EXPECT_EQ(lock_.read_hold_count(), 2);
        EXPECT_TRUE(lock_.try_lock_shared());
        for (int left = 2; left >= 0; --left) {
          lock_.unlock_shared();
          EXPECT_EQ(lock_.read_hold_count(), left);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Calls(), before);
  EXPECT_EQ(Readers(), 1);
}

// A thread that reads in a hold which was called back reads on in that, though others of its client
// have to ask for another.
TEST_F(KeepReadWrite, ThreadThatReadsStaysInItsOldHold) {
  ReentrantReadWriteLock lock(client_, "lock",
                              {.local_window = absl::ZeroDuration(), .keep = absl::Seconds(20)});
  Read(lock);
  Read(lock);
  lock.lock_shared();
  std::thread writer([&] { Write(theirs_); });
  std::thread([&] {
    EXPECT_TRUE(Await([&] {
      const bool joins = lock.try_lock_shared();
      if (joins) lock.unlock_shared();
      return !joins;  // the writer's call was heard
    }));
  }).join();
  std::thread reader([&] { Read(lock); });
  EXPECT_TRUE(Await([&] { return theirs_.Inspect()->waiting == 2; }));
  lock.lock_shared();
  EXPECT_EQ(lock.read_hold_count(), 2);
  EXPECT_FALSE(IsWritten());
  lock.unlock_shared();
  EXPECT_EQ(lock.read_hold_count(), 1);
  lock.unlock_shared();
  writer.join();
  reader.join();
  EXPECT_EQ(lock.read_hold_count(), 0);
  lock.lock_shared();
  lock.lock_shared();
  EXPECT_EQ(lock.read_hold_count(), 2);
  EXPECT_EQ(Readers(), 1);
  lock.unlock_shared();
  lock.unlock_shared();
}

TEST_F(KeepReadWrite, WritesAreTakenAgainWithoutTheServer) {
  Write(lock_);
  const int64_t before = Calls();
  for (int i = 0; i < 100; ++i) Write(lock_);
  EXPECT_EQ(Calls(), before);
  EXPECT_TRUE(IsWritten());
}

TEST_F(KeepReadWrite, ReaderElsewhereCallsAWriterBack) {
  Write(lock_);
  EXPECT_LT(TimeOf([&] { theirs_.lock_shared(); }), kReadersMoment);
  theirs_.unlock_shared();
  Write(lock_);
  EXPECT_FALSE(theirs_.try_lock_shared());
  EXPECT_TRUE(Await([&] { return !IsWritten(); }, kReadersMoment));
}

TEST_F(KeepReadWrite, WriterElsewhereCallsAllReadersBack) {
  constexpr int kClients = 20;
  std::vector<std::unique_ptr<ReentrantReadWriteLock>> locks;
  for (int i = 0; i < kClients; ++i) {
    locks.push_back(
        std::make_unique<ReentrantReadWriteLock>(Connect(server_->url()), "lock", kKeptReads));
    ASSERT_TRUE(Await([&] {
      Read(*locks.back());
      return Readers() == i + 1;
    }));
  }
  EXPECT_LT(TimeOf([&] { theirs_.lock(); }), kReadersMoment);
  EXPECT_EQ(Readers(), 0);
  theirs_.unlock();
}

TEST_F(KeepReadWrite, BusyReadGoesBackAtItsRelease) {
  Read(lock_);
  lock_.lock_shared();
  std::thread writer([&] { Write(theirs_); });
  ASSERT_TRUE(Await([&] {
    return server_->Integer({"ZCARD", support::AuxiliaryKey("lock", "rw.writers")}) == 1;
  }));
  EXPECT_LT(TimeOf([&] {
              lock_.unlock_shared();
              writer.join();
            }),
            kReadersMoment);
}

// It would only have to be called back once more.
TEST_F(KeepReadWrite, ReadThatServedOnceSinceItWasCalledBackIsNotKeptBeforeItServesTwice) {
  Read(lock_);
  for (int i = 0; i < 2; ++i) {
    Write(theirs_);
    ASSERT_EQ(Readers(), 0);
    Read(lock_);
  }
  EXPECT_TRUE(Await([&] { return Readers() == 0; }, kReadersMoment)) << "of no use the last time";
  Read(lock_);
  ASSERT_TRUE(client_.Ping().ok());
  EXPECT_EQ(Readers(), 1) << "it is read again";
  for (int i = 0; i < 2; ++i) {
    Read(lock_);
    Write(theirs_);
    Read(lock_);
    Read(lock_);
    ASSERT_TRUE(client_.Ping().ok());
    EXPECT_EQ(Readers(), 1) << "each time it serves more than once";
  }
}

TEST_F(KeepReadWrite, TryToWriteCallsReadersBack) {
  Read(lock_);
  EXPECT_FALSE(theirs_.try_lock());
  EXPECT_TRUE(Await([&] { return Readers() == 0; }, kReadersMoment));
  EXPECT_TRUE(theirs_.try_lock());
  theirs_.unlock();
}

TEST_F(KeepReadWrite, WriterOfTheSameClientGetsInAtOnce) {
  for (int i = 0; i < 10; ++i) {
    Read(lock_);
    EXPECT_TRUE(lock_.try_lock()) << "the reads are its own, and idle";
    lock_.unlock();
    Read(lock_);
    EXPECT_LT(TimeOf([&] { Write(lock_); }), kReadersMoment);
  }
}

TEST_F(KeepReadWrite, ReaderOfTheSameClientGetsInAfterAWriter) {
  for (int i = 0; i < 10; ++i) {
    Write(lock_);
    EXPECT_LT(TimeOf([&] { Read(lock_); }), kReadersMoment);
  }
}

TEST_F(KeepReadWrite, DowngradeLeavesNothingThatKeepsWritersOut) {
  for (int i = 0; i < 5; ++i) {
    lock_.lock();
    lock_.lock_shared();
    lock_.unlock();
    EXPECT_FALSE(theirs_.try_lock());
    lock_.unlock_shared();
    EXPECT_LT(TimeOf([&] { Write(theirs_); }), kReadersMoment);
  }
}

TEST_F(KeepReadWrite, ReadsUnderAWriteAreNotKept) {
  lock_.lock();
  Read(lock_);
  lock_.unlock();
  EXPECT_TRUE(Await([&] { return Readers() == 0; }, kReadersMoment));
}

TEST_F(KeepReadWrite, LastLockObjectGivesReadsBack) {
  auto lock = std::make_unique<ReentrantReadWriteLock>(client_, "lock", kKeptReads);
  Read(*lock);
  lock.reset();
  EXPECT_TRUE(Await([&] { return Readers() == 0; }, kReadersMoment));
}

// Readers of other terms found a group of their own, and the first one is not the latest any more.
TEST_F(KeepReadWrite, LastLockObjectGivesBackReadsOfOtherTermsToo) {
  LockOptions longer = kKeptReads;
  longer.lease = absl::Seconds(60);
  auto lock = std::make_unique<ReentrantReadWriteLock>(client_, "lock", kKeptReads);
  auto other_terms = std::make_unique<ReentrantReadWriteLock>(client_, "lock", longer);
  lock->lock_shared();
  std::thread([&] { Read(*other_terms); }).join();
  lock->unlock_shared();
  EXPECT_EQ(Readers(), 2);
  lock->lock_shared();
  std::thread([&] { Read(*other_terms); }).join();
  lock->unlock_shared();
  lock.reset();
  other_terms.reset();
  EXPECT_TRUE(Await([&] { return Readers() == 0; }, kReadersMoment));
}

TEST_F(KeepReadWrite, KilledSubscriptionGivesReadsBack) {
  Read(lock_);
  server_->Command({"CLIENT", "KILL", "TYPE", "pubsub"});
  EXPECT_TRUE(Await([&] { return Readers() == 0; }, kKeptReads.lease / 3));
}

}  // namespace
}  // namespace redlatch
