// A forked child and the client of its parent.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

class ClientFork : public ::testing::Test {
 protected:
  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  absl::StatusOr<Client> client_ = Client::Connect(server_->url());
};

TEST_F(ClientFork, TheChildsCallsAreRefusedAndTheParentGoesOnWithItsConnection) {
  ASSERT_TRUE(client_.ok()) << client_.status();
  ASSERT_TRUE(client_->Ping().ok());
  server_->Command({"CONFIG", "RESETSTAT"});
  const int code = support::CodeOfFork([&] {
    const absl::Status refused = client_->Ping().status();
    EXPECT_THAT(refused,
                IsError(absl::StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr(server_->url()), HasSubstr("connect again after fork()"))));
    EXPECT_EQ(client_->server(), server_->url());
    const Client copy = *client_;
    EXPECT_FALSE(copy.Ping().ok());
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_THAT(server_->Text({"INFO", "commandstats"}), Not(HasSubstr("cmdstat_ping")));
  EXPECT_TRUE(client_->Ping().ok());
  EXPECT_EQ(server_->Info("total_connections_received"), "0");
}

TEST_F(ClientFork, AllThatAClientHasMayBeDestroyedInTheChildAndClosesItsDescriptors) {
  ASSERT_TRUE(client_.ok()) << client_.status();
  auto mutex = std::make_unique<SimpleLock>(*client_, "simple");
  auto readers = std::make_unique<ReentrantReadWriteLock>(*client_, "read_write");
  auto semaphore = std::make_unique<Semaphore>(*client_, "semaphore", 3);
  auto latch = std::make_unique<CountDownLatch>(*client_, "latch", 2);
  mutex->lock();
  readers->lock_shared();
  semaphore->acquire();
  latch->count_down();
  auto lease = ReentrantLock(*client_, "reentrant").Acquire();
  auto read = readers->AcquireRead();
  auto permit = semaphore->Acquire();
  Hold hold = mutex->current();
  const int code = support::CodeOfFork([&] {
    const int before = support::OpenDescriptors();
    EXPECT_FALSE(lease->Release().ok());
    EXPECT_FALSE(permit->Release().ok());
    EXPECT_FALSE(hold.valid());
    mutex->unlock();
    mutex.reset();
    readers.reset();
    latch.reset();
    semaphore.reset();
    lease = absl::CancelledError();
    read = absl::CancelledError();
    permit = absl::CancelledError();
    hold = Hold();
    client_ = absl::CancelledError();
    // Of the commands and of the subscriptions, each a socket and what wakes its reader.
    EXPECT_EQ(support::OpenDescriptors(), before - 4);
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(hold.valid());
  EXPECT_TRUE(lease->Release().ok());
  EXPECT_TRUE(read->Release().ok());
  EXPECT_TRUE(permit->Release().ok());
  semaphore->release();
  readers->unlock_shared();
  mutex->unlock();
}

// A sanitizer's forked children must start no threads, as the fork here does: its own locks may be
// held by a thread that they do not have.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_F(ClientFork, AGrandchildIsRefusedTheConnectionOfTheChild) {
  const int code = support::CodeOfFork([&] {
    client_ = Client::Connect(server_->url());
    if (!client_.ok() || !client_->Ping().ok()) return 1;
    const int grandchild = support::CodeOfFork([&] {
      return client_->Ping().status().code() == absl::StatusCode::kFailedPrecondition ? 0 : 3;
    });
    if (grandchild != 0) return grandchild;
    return client_->Ping().ok() ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}
#endif

TEST_F(ClientFork, AChildIsUnharmedWhateverItsParentsThreadsWereDoing) {
  ASSERT_TRUE(client_.ok()) << client_.status();
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 4; ++i) {
    busy.emplace_back([&] {
      while (!stop) EXPECT_TRUE(client_->Ping().ok());
    });
  }
  const int rounds = support::Scaled(300);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const int code = support::CodeOfFork([&] {
      if (client_->Ping().ok()) return 1;
      client_ = absl::CancelledError();
      return 0;
    });
    EXPECT_EQ(code, 0) << "round " << round;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_TRUE(client_->Ping().ok());
}

}  // namespace
}  // namespace redlatch
