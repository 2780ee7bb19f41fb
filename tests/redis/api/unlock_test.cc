// unlock() and destructors write the release, and do not wait for the server.
#include "lua/scripts.h"
#include "redlatch/redis_lock_base.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// How long a call may take that does not wait, on a busy machine.
constexpr absl::Duration kUnlocksAtOnce = absl::Seconds(5);

struct Unlock : ::testing::Test {
  bool IsFree(const std::string& key = "lock") { return server_->Integer({"EXISTS", key}) == 0; }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url() + "?command_timeout=30s");
  SimpleLock lock_{client_, "lock"};
};

// These releases are the first of their kinds over the connection, so they carry the scripts'
// texts.
TEST_F(Unlock, DoesNotWaitForHungServer) {
  ReentrantLock reentrant(client_, "reentrant");
  ReentrantReadWriteLock read_write(client_, "read_write");
  Semaphore semaphore(client_, "semaphore", 2);
  lock_.lock();
  reentrant.lock();
  read_write.lock_shared();
  semaphore.acquire();
  auto permit = Must(semaphore.Acquire());
  std::optional<Lease> lease = *SimpleLock(client_, "other").Acquire();
  server_->Stop();
  const absl::Duration took = TimeOf([&] {
    lock_.unlock();
    reentrant.unlock();
    read_write.unlock_shared();
    semaphore.release();
    permit = Permit();
    lease.reset();
  });
  server_->Continue();
  EXPECT_LT(took, kUnlocksAtOnce);
  for (const char* const key : {"lock", "reentrant", "other"}) {
    EXPECT_TRUE(Await([&] { return IsFree(key); })) << key;
  }
  EXPECT_TRUE(Await([&] { return semaphore.Inspect()->available() == 2; }));
  EXPECT_TRUE(read_write.try_lock_for(std::chrono::seconds(5)));
  read_write.unlock();
}

TEST_F(Unlock, LastHandleWaitsAtMostCommandTimeout) {
  std::optional<Client> client = Connect(server_->url() + "?command_timeout=300ms");
  std::optional<SimpleLock> lock(std::in_place, *client, "lock");
  lock->lock();
  server_->Stop();
  lock->unlock();
  lock.reset();
  const absl::Duration took = TimeOf([&] { client.reset(); });
  server_->Continue();
  EXPECT_LT(took, absl::Milliseconds(300) + kUnlocksAtOnce);
  EXPECT_TRUE(Await([&] { return IsFree(); })) << "its bytes were written";
}

// LockOptions::cache_for: the client caches a lock until another client asks for it.

const LockOptions kCached{.cache_for = absl::Seconds(20)};

struct CachedLock : ::testing::Test {
  bool IsFree() { return server_->Integer({"EXISTS", "lock"}) == 0; }
  int64_t Calls() { return server_->Calls({"eval", "evalsha"}); }
  static void TakeAndLeave(SimpleLock& lock) {
    lock.lock();
    lock.unlock();
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url());
};

TEST_F(CachedLock, IsTakenAgainWithoutServer) {
  SimpleLock lock(client_, "lock", kCached);
  TakeAndLeave(lock);
  EXPECT_FALSE(IsFree());
  const int64_t before = Calls();
  for (int i = 0; i < 100; ++i) TakeAndLeave(lock);
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
  SimpleLock same(client_, "lock", kCached);
  std::thread([&] { TakeAndLeave(same); }).join();
  EXPECT_EQ(Calls(), before);
}

TEST_F(CachedLock, ReadGivesOwnWriteBackWithoutRecall) {
  ReentrantReadWriteLock lock(client_, "lock", kCached);
  lock.lock();
  lock.unlock();
  lock.lock_shared();
  lock.unlock_shared();
  EXPECT_EQ(server_->Calls({"publish"}), 0);
}

// Refused tries recall the lock once a second; they must succeed more often than that.
TEST_F(CachedLock, TriesSucceedAgainstBusyClient) {
  std::atomic<bool> stop = false;
  std::atomic<int> used = 0;
  std::jthread user([&] {
    for (SimpleLock lock(client_, "lock", kCached); !stop; ++used) {
      TakeAndLeave(lock);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the lock is cached meanwhile
    }
  });
  const Client other = Connect(server_->url());
  SimpleLock theirs(other, "lock");
  int succeeded = 0;
  EXPECT_TRUE(Await(
      [&] {
        if (used < 2 || !theirs.try_lock()) return false;
        theirs.unlock();
        return ++succeeded == 30;
      },
      absl::Seconds(20)));
  stop = true;
}

// Of many cached locks, the least recently used ones go back first.
TEST_F(CachedLock, ClientCachesOneThousandLocks) {
  constexpr size_t kMost = 1024;
  std::vector<std::unique_ptr<SimpleLock>> locks;
  const auto name = [](size_t i) { return "many:" + std::to_string(i); };
  for (size_t i = 0; i < kMost + 100; ++i) {
    locks.push_back(std::make_unique<SimpleLock>(client_, name(i), kCached));
    locks.back()->lock();
    locks.back()->unlock();
  }
  const auto cached = [&] {
    std::vector<size_t> found;
    for (size_t i = 0; i < locks.size(); ++i) {
      if (server_->Integer({"EXISTS", name(i)}) > 0) found.push_back(i);
    }
    return found;
  };
  ASSERT_TRUE(Await([&] { return cached().size() <= kMost; }));
  const std::vector<size_t> left = cached();
  EXPECT_GE(left.size(), kMost - 100) << "no more go than must";
  EXPECT_GT(left.front(), 0U) << "those of long ago go first";
  EXPECT_EQ(left.back(), locks.size() - 1);
}

class OfAUser : public RedisLockBase {
 public:
  OfAUser(Client client, LockOptions options, bool cacheable)
      : RedisLockBase(std::move(client), "theirs", std::move(options)), cacheable_(cacheable) {}

 private:
  LockScripts Scripts() const override { return lua::kSimpleScripts; }
  LockTraits Traits() const override { return {.kind = "users", .cacheable = cacheable_}; }

  const bool cacheable_;
};

TEST_F(CachedLock, IsNotCachedByMultiLock) {
  SimpleLock one(client_, "a", kCached), other(client_, "b", kCached);
  MultiLock both({&one, &other});
  both.lock();
  both.unlock();
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "a", "b"}) == 0; }));
}

TEST_F(CachedLock, MayBeOfUsersClassThatDeclaresSupport) {
  OfAUser does_not(client_, kCached, false);
  EXPECT_THAT(does_not.Acquire().status(),
              IsError(absl::StatusCode::kInvalidArgument,
                      HasSubstr("classes whose LockTraits are `cacheable`")));
  OfAUser does(Connect(server_->url()), kCached, true);
  does.lock();
  does.unlock();
  EXPECT_EQ(server_->Integer({"EXISTS", "theirs"}), 1) << "it is cached";
}

}  // namespace
}  // namespace redlatch
