// unlock() and destructors write the release, and do not wait for the server.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// What a call may take that does not wait, on a machine that is busy.
constexpr absl::Duration kUnlocksAtOnce = absl::Milliseconds(200);

class Unlock : public ::testing::Test {
 protected:
  bool IsFree(const std::string& key = "lock") { return server_->Integer({"EXISTS", key}) == 0; }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url());
  SimpleLock lock_{client_, "lock"};

  // The first release of a kind over a connection is waited for.
  void SetUp() override {
    lock_.lock();
    lock_.unlock();
  }
};

TEST_F(Unlock, DoesNotWaitForAServerThatHangs) {
  ReentrantLock reentrant(client_, "reentrant");
  ReentrantReadWriteLock read_write(client_, "read_write");
  Semaphore semaphore(client_, "semaphore", 2);
  reentrant.lock(), reentrant.unlock();
  read_write.lock_shared(), read_write.unlock_shared();
  semaphore.acquire(), semaphore.release();
  lock_.lock();
  reentrant.lock();
  read_write.lock_shared();
  semaphore.acquire();
  absl::StatusOr<Permit> permit = semaphore.Acquire();
  ASSERT_TRUE(permit.ok()) << permit.status();
  SimpleLock other(client_, "other");
  std::optional<Lease> lease = *other.Acquire();
  server_->Stop();
  const absl::Duration took = TimeOf([&] {
    lock_.unlock();
    reentrant.unlock();
    read_write.unlock_shared();
    semaphore.release();
    *permit = Permit();
    lease.reset();
  });
  server_->Continue();
  EXPECT_LT(took, kUnlocksAtOnce);
  for (const char* const key : {"lock", "reentrant", "other"}) {
    EXPECT_TRUE(Await([&] { return IsFree(key); })) << key;
  }
  EXPECT_TRUE(Await([&] { return *semaphore.available() == 2; }));
  EXPECT_TRUE(read_write.try_lock_for(std::chrono::seconds(5)));
  read_write.unlock();
}

TEST_F(Unlock, TheLastHandleWaitsNoLongerThanForTheCommandTimeout) {
  std::optional<Client> client = Connect(server_->url() + "?command_timeout=300ms");
  std::optional<SimpleLock> lock(std::in_place, *client, "lock");
  lock->lock();
  lock->unlock();
  lock->lock();
  server_->Stop();
  lock->unlock();
  lock.reset();
  const absl::Duration took = TimeOf([&] { client.reset(); });
  server_->Continue();
  EXPECT_LT(took, absl::Milliseconds(300) + kUnlocksAtOnce);
  EXPECT_TRUE(Await([&] { return IsFree(); }, absl::Seconds(3))) << "its bytes were written";
}

}  // namespace
}  // namespace redlatch
