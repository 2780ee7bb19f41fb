#include "tests/redisson/redisson_testing.h"

namespace redlatch {
namespace {

class RedissonReadWriteLock : public RedissonTest {
 protected:
  // These return true if another Java thread, or another C++ client, can read or write now.
  bool JavaCan(const std::string& side) {
    const std::string can = java().Do("prober", "tryLock", side, "prices", 0, -1);
    if (can != "true") return false;
    EXPECT_EQ(java().Do("prober", "unlock", side, "prices"), "");
    return true;
  }
  bool CppCan(const std::string& side) {
    redisson::ReadWriteLock lock(other_client(), "prices");
    absl::StatusOr<Lease> lease = side == "read"
                                      ? lock.AcquireRead({.wait = absl::ZeroDuration()})
                                      : lock.AcquireWrite({.wait = absl::ZeroDuration()});
    EXPECT_TRUE(lease.ok() || IsBusy(lease.status())) << lease.status();
    if (!lease.ok()) return false;
    EXPECT_TRUE(lease->Release().ok());
    return true;
  }
  std::string Java(const std::string& verb, const std::string& side) {
    return java().Do("1", verb, side, "prices");
  }
  const Client& other_client() {
    if (other_ == nullptr) other_ = std::make_unique<Client>(Connect(server().url()));
    return *other_;
  }

 private:
  std::unique_ptr<Client> other_;
};

TEST_F(RedissonReadWriteLock, ReadersOfBothLanguagesShare) {
  redisson::ReadWriteLock lock(client(), "prices");
  ASSERT_EQ(Java("lock", "read"), "");
  auto reads = Must(lock.AcquireRead({.wait = absl::ZeroDuration()}));
  EXPECT_TRUE(JavaCan("read"));
  EXPECT_TRUE(CppCan("read"));
  EXPECT_FALSE(JavaCan("write"));
  EXPECT_FALSE(CppCan("write"));

  // The writer must wait for both.
  EXPECT_EQ(Java("unlock", "read"), "");
  EXPECT_FALSE(JavaCan("write"));
  EXPECT_FALSE(CppCan("write"));
  EXPECT_TRUE(reads.Release().ok());
  EXPECT_TRUE(JavaCan("write"));
  EXPECT_TRUE(CppCan("write"));
}

TEST_F(RedissonReadWriteLock, WriterExcludesReaders) {
  ASSERT_EQ(Java("lock", "write"), "");
  EXPECT_FALSE(CppCan("read"));
  EXPECT_FALSE(CppCan("write"));
  EXPECT_EQ(Java("unlock", "write"), "");
  auto writes = Must(redisson::ReadWriteLock(client(), "prices").AcquireWrite());
  EXPECT_FALSE(JavaCan("read"));
  EXPECT_FALSE(JavaCan("write"));
}

TEST_F(RedissonReadWriteLock, DowngradeKeepsTheRead) {
  redisson::ReadWriteLock lock(client(), "prices");
  lock.lock();
  lock.lock_shared();
  lock.unlock();
  EXPECT_TRUE(JavaCan("read"));
  EXPECT_FALSE(JavaCan("write"));
  EXPECT_TRUE(CppCan("read"));
  EXPECT_FALSE(CppCan("write"));
  lock.unlock_shared();
  // unlock_shared() does not wait for the server.
  EXPECT_EQ(java().Do("1", "tryLock", "write", "prices", 10'000, -1), "true");
}

TEST_F(RedissonReadWriteLock, JavaDowngradeKeepsTheRead) {
  ASSERT_EQ(Java("lock", "write"), "");
  ASSERT_EQ(Java("lock", "read"), "");
  EXPECT_FALSE(CppCan("read"));
  ASSERT_EQ(Java("unlock", "write"), "");
  EXPECT_TRUE(CppCan("read"));
  EXPECT_FALSE(CppCan("write"));
  ASSERT_EQ(Java("unlock", "read"), "");
  EXPECT_TRUE(CppCan("write"));
}

TEST_F(RedissonReadWriteLock, WriterWakesReadersOfBothLanguages) {
  redisson::ReadWriteLock lock(client(), "prices");
  ASSERT_EQ(Java("lock", "write"), "");
  const PendingReply java_reader = java().Send("reader", "lock", "read", "prices");
  auto reader = InThread([&lock] { return lock.AcquireRead({.wait = kLong}); });
  ASSERT_TRUE(AwaitWaiters(server(), "read", "prices", 2));
  // Java's message would miss a thread that does not wait yet.
  ASSERT_TRUE(java().AwaitWaiting("reader"));
  const absl::Duration took = TimeOf([&] {
    EXPECT_EQ(Java("unlock", "write"), "");
    const auto lease = Must(reader.get());
    EXPECT_TRUE(java_reader.Get(kSoon).ok);
  });
  EXPECT_LT(took, kSoon);
}

TEST_F(RedissonReadWriteLock, ReleasedWriteWakesJavaReaders) {
  auto writes = Must(redisson::ReadWriteLock(client(), "prices").AcquireWrite());
  const PendingReply one = java().Send("reader1", "lock", "read", "prices");
  const PendingReply two = java().Send("reader2", "lock", "read", "prices");
  ASSERT_TRUE(java().AwaitWaiting("reader1") && java().AwaitWaiting("reader2"));
  EXPECT_TRUE(writes.Release().ok());
  EXPECT_TRUE(one.Get(kSoon).ok) << one.Get().value;
  EXPECT_TRUE(two.Get(kSoon).ok) << two.Get().value;
}

TEST_F(RedissonReadWriteLock, LastReleasedReadWakesJavaWriter) {
  auto reads = Must(redisson::ReadWriteLock(client(), "prices").AcquireRead());
  const PendingReply writer = java().Send("writer", "lock", "write", "prices");
  ASSERT_TRUE(AwaitWaiters(server(), "write", "prices", 1));
  EXPECT_TRUE(reads.Release().ok());
  EXPECT_TRUE(writer.Get(kSoon).ok) << writer.Get().value;
}

TEST_F(RedissonReadWriteLock, WatchdogsOfReadersKeepWritersOut) {
  const auto short_java = ConnectJava({.watchdog = absl::Milliseconds(600)});
  redisson::ReadWriteLock lock(client(), "prices", {.lease = absl::Milliseconds(600)});
  ASSERT_EQ(short_java->Do("1", "lock", "read", "prices"), "");
  auto reads = Must(lock.AcquireRead());
  // One reader of each language remains, one after the other.
  EXPECT_EQ(java().Do("2", "tryLock", "write", "prices", 1000, -1), "false");
  EXPECT_EQ(short_java->Do("1", "unlock", "read", "prices"), "");
  EXPECT_EQ(java().Do("2", "tryLock", "write", "prices", 1000, -1), "false");
  EXPECT_TRUE(reads.valid());
  ASSERT_EQ(short_java->Do("1", "lock", "read", "prices"), "");
  EXPECT_TRUE(reads.Release().ok());
  EXPECT_TRUE(IsBusy(redisson::ReadWriteLock(other_client(), "prices")
                         .AcquireWrite({.wait = absl::Seconds(1)})
                         .status()));
}

}  // namespace
}  // namespace redlatch
