#include "redlatch/run_locked.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kMultiPatience = absl::Seconds(10);

bool IsFree(const Client& client, const std::string& name) {
  return SimpleLock(client, name).TryAcquire().ok();
}

class MultiLockTest : public ::testing::Test {
 protected:
  bool AwaitQueued(const std::string& name, int waiters = 1) {
    return Await([&] {
      return server_->Integer({"ZCARD", support::AuxiliaryKey(name, "simple.queue")}) == waiters;
    });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url());
  const Client other_ = Connect(server_->url());
};

TEST_F(MultiLockTest, OrderAndRepetitionOfNamesDoNotMatter) {
  MultiLock lock(client_, {"b", "a", "b"});
  MultiLock same(client_, {"a", "b"});
  const std::scoped_lock guard(lock);
  EXPECT_EQ(same.hold_count(), 1);
  EXPECT_TRUE(same.current().valid());
}

TEST_F(MultiLockTest, OfOneNameIsTheSimpleLockOfThatName) {
  MultiLock lock(client_, {"a", "a"});
  SimpleLock same(client_, "a");
  const std::scoped_lock guard(lock);
  EXPECT_EQ(same.hold_count(), 1);
}

TEST_F(MultiLockTest, TakesLocksOfAnyClassAndSharedSides) {
  ReentrantLock reentrant(client_, "reentrant");
  ReentrantReadWriteLock prices(client_, "prices");
  ReentrantReadWriteLock read_elsewhere(other_, "prices");
  SimpleLock simple(client_, "simple");
  MultiLock lock({&simple, &prices.read_lock(), &reentrant});
  {
    auto lease = Must(lock.Acquire({.wait = kMultiPatience}));
    EXPECT_TRUE(lease.valid());
    EXPECT_GT(lease.remaining(), absl::Seconds(1));
    EXPECT_EQ(lease.fencing_token(), FencingToken());
    EXPECT_NE(lease.fencing_token("simple"), FencingToken());
    EXPECT_NE(lease.fencing_token("reentrant"), lease.fencing_token("simple"));
    EXPECT_EQ(lease.fencing_token("another"), FencingToken());
    EXPECT_FALSE(IsFree(other_, "simple"));
    EXPECT_TRUE(read_elsewhere.try_lock_shared());
    read_elsewhere.unlock_shared();
    EXPECT_FALSE(read_elsewhere.try_lock());
    EXPECT_TRUE(lease.Release().ok());
    EXPECT_FALSE(lease.valid());
    EXPECT_FALSE(lease.lost().stop_requested());
  }
  {
    const std::scoped_lock guard(lock);
    EXPECT_EQ(lock.hold_count(), 1);
    EXPECT_TRUE(lock.current().valid());
    EXPECT_EQ(prices.read_hold_count(), 1);
    EXPECT_FALSE(read_elsewhere.try_lock());
  }
  EXPECT_EQ(lock.hold_count(), 0);
  EXPECT_TRUE(read_elsewhere.try_lock_for(std::chrono::seconds(5)));
  EXPECT_FALSE(lock.try_lock_for(std::chrono::milliseconds(20)));
  EXPECT_TRUE(Await([&] { return IsFree(other_, "simple"); }));
  read_elsewhere.unlock();
}

TEST_F(MultiLockTest, SaysWhatCannotBeTaken) {
  const auto refusal = [](MultiLock& lock) {
    EXPECT_FALSE(lock.current().valid());
    EXPECT_EQ(lock.hold_count(), 0);
    lock.unlock();
    EXPECT_THROW(lock.lock(), std::system_error);
    const absl::Status status = lock.TryAcquire().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(lock.Inspect().status(), status);
    EXPECT_EQ(lock.ForceRelease(), status);
    return std::string(status.message());
  };
  MultiLock none(client_, {});
  EXPECT_THAT(refusal(none), HasSubstr("at least one"));
  MultiLock empty(std::vector<MultiLock::Part>{});
  EXPECT_THAT(refusal(empty), HasSubstr("at least one"));
  std::vector<std::string> names;
  for (int i = 0; i < 65; ++i) names.push_back(absl::StrCat(i));
  MultiLock large(client_, names);
  EXPECT_THAT(refusal(large), HasSubstr("64"));
  ReentrantReadWriteLock prices(client_, "prices");
  MultiLock sides({&prices, &prices.read_lock()});
  EXPECT_THAT(refusal(sides), HasSubstr("twice"));
  SimpleLock a(client_, "a");
  MultiLock inner({&a});
  MultiLock outer({&a, &inner});
  EXPECT_THAT(refusal(outer), HasSubstr("name its locks"));
  MultiLock nothing({&a, static_cast<SimpleLock*>(nullptr)});
  EXPECT_THAT(refusal(nothing), HasSubstr("null"));
}

TEST_F(MultiLockTest, OfTheMostNamesAndOfLongOnes) {
  std::vector<std::string> names;
  for (int i = 0; i < 64; ++i) names.push_back(absl::StrCat(std::string(4000, 'x'), i));
  MultiLock lock(client_, names);
  MultiLock same(other_, names);
  auto lease = Must(lock.Acquire());
  absl::StatusOr<Lease> got;
  std::thread waiter([&] { got = same.Acquire({.wait = kMultiPatience}); });
  ASSERT_TRUE(AwaitQueued(names.back()));
  EXPECT_TRUE(lease.Release().ok());
  waiter.join();
  EXPECT_TRUE(got.ok()) << got.status();
}

TEST_F(MultiLockTest, TakesALockOfAQuorumBesideOthers) {
  std::vector<std::unique_ptr<RedisServer>> servers;
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(RedisServer::Start());
    clients.push_back(Connect(servers.back()->url()));
  }
  RedLock quorum(clients, "q");
  SimpleLock simple(client_, "s");
  MultiLock lock({&quorum, &simple});
  auto lease = Must(lock.Acquire({.wait = kMultiPatience}));
  EXPECT_NE(lease.fencing_token("q"), FencingToken());
  EXPECT_FALSE(quorum.TryAcquire().ok());
  EXPECT_FALSE(IsFree(other_, "s"));
}

// A waiting call owns all that it needs: the sanitizers find any use of the destroyed locks.
TEST_F(MultiLockTest, ItAndItsLocksMayBeDestroyedWhileACallWaits) {
  ReentrantLock holder(Connect(server_->url()), "b");
  const auto held = holder.Acquire();
  const std::string queue = support::AuxiliaryKey("b", "reentrant.queue");
  for (int way = 0; way < 6; ++way) {
    ReentrantReadWriteLock prices(other_, "prices");
    auto a = std::make_unique<ReentrantLock>(client_, "a");
    auto b = std::make_unique<ReentrantLock>(client_, "b");
    std::vector<MultiLock::Part> parts = {a.get(), b.get()};
    if (way % 2 == 0) parts.emplace_back(&prices.read_lock());  // of two clients
    auto lock = std::make_unique<MultiLock>(std::move(parts));
    absl::Status ended;
    std::atomic<bool> done{false};
    std::thread waiter([&, multi = lock.get()] {
      if (way < 2) {
        ended = multi->Acquire({.wait = absl::Hours(1)}).status();
      } else if (way < 4) {
        EXPECT_THROW(multi->lock(), std::system_error);
        ended = absl::CancelledError();
      } else {
        multi->AcquireAsync({}, [&](const absl::StatusOr<Lease>& lease) {
          ended = lease.status();
          done = true;
        });
        return;
      }
      done = true;
    });
    ASSERT_TRUE(Await([&] { return server_->Integer({"ZCARD", queue}) == 1; }));
    lock.reset();
    a.reset();
    b.reset();
    waiter.join();
    EXPECT_TRUE(Await([&] { return done.load(); }));
    EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
    EXPECT_TRUE(Await([&] { return server_->Integer({"ZCARD", queue}) == 0; }));
    EXPECT_TRUE(Await([&] { return IsFree(other_, "a"); }));
  }
}

// A std::stop_callback on its token waits for a mutex: a lease must not wait for that callback.
TEST_F(MultiLockTest, ALeaseMayBeDroppedUnderAMutexThatALossTakes) {
  ReentrantLock a(client_, "a");
  SimpleLock b(client_, "b");
  MultiLock lock({&a, &b});
  auto lease = std::make_unique<Lease>(*lock.Acquire());
  std::mutex mutex;
  std::atomic<bool> told{false};
  std::atomic<bool> heard{false};
  std::atomic<bool> dropped{false};
  const std::stop_callback on_loss(lease->lost(), [&] {
    told = true;
    const std::lock_guard guard(mutex);
    heard = true;
  });
  mutex.lock();
  EXPECT_TRUE(a.ForceRelease().ok());
  ASSERT_TRUE(Await([&] { return told.load(); }));
  std::thread dropper([&] {
    lease.reset();
    dropped = true;
  });
  EXPECT_TRUE(Await([&] { return dropped.load(); }));
  EXPECT_FALSE(heard);
  mutex.unlock();
  dropper.join();
  EXPECT_TRUE(Await([&] { return heard.load(); }));
}

TEST_F(MultiLockTest, AThreadDoesNotWaitForItself) {
  ReentrantReadWriteLock prices(client_, "prices");
  SimpleLock simple(client_, "s");
  MultiLock lock({&prices, &simple});
  prices.lock_shared();
  EXPECT_FALSE(lock.try_lock());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  EXPECT_FALSE(lock.try_lock_until(deadline));
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
  try {
    lock.lock();
    ADD_FAILURE() << "it reads what it was to write";
  } catch (const std::system_error& refused) {
    EXPECT_EQ(refused.code(), std::errc::resource_deadlock_would_occur);
  }
  prices.unlock_shared();
  EXPECT_TRUE(IsFree(other_, "s"));
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace redlatch
