// co_await, from a coroutine type of the test's own.
#include "redlatch/awaitable.h"

#include <coroutine>
#include <exception>
#include <iterator>

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// Begins at once, and is destroyed with its handle, suspended or not.
class Task {
 public:
  struct promise_type {
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

class AwaitableCalls : public ::testing::Test {
 protected:
  // Where coroutines go on: on the test's own thread.
  bool RunUntil(const std::function<bool()>& condition) {
    return Await([&] {
      std::deque<std::function<void()>> posted;
      {
        const base::MutexLock lock(mu_);
        posted.swap(posted_);
      }
      for (const auto& each : posted) each();
      return condition();
    });
  }
  bool IsFree(const std::string& key = "lock") { return server_->Integer({"EXISTS", key}) == 0; }
  bool AwaitWaiting(uint64_t count) {
    return Await([&] { return client_.Stats().all.waiting == count; });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  base::Mutex mu_;
  std::deque<std::function<void()>> posted_;
  Client client_ = Connect(server_->url(), {.post = [this](std::function<void()> completion) {
                             const base::MutexLock lock(mu_);
                             posted_.push_back(std::move(completion));
                           }});
  SimpleLock lock_{client_, "lock"};
};

TEST_F(AwaitableCalls, AreAwaitedOneAfterTheOther) {
  bool done = false;
  const std::thread::id here = std::this_thread::get_id();
  const auto body = [&]() -> Task {
    for (int i = 0; i < 3; ++i) {
      absl::StatusOr<Lease> lease = co_await lock_.AcquireAwaitable({.wait = absl::Seconds(5)});
      EXPECT_TRUE(lease.ok()) << lease.status();
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_TRUE(lease->valid());
      const absl::Status released = co_await lease->ReleaseAwaitable();
      EXPECT_EQ(released, absl::OkStatus());
      EXPECT_TRUE(IsFree());
    }
    done = true;
  };
  const Task task = body();
  EXPECT_TRUE(RunUntil([&] { return done; }));
}

TEST_F(AwaitableCalls, OfEveryKind) {
  bool done = false;
  ReentrantReadWriteLock read_write(client_, "rw");
  Semaphore semaphore(client_, "semaphore", 3);
  CountDownLatch latch(client_, "latch", 1);
  MultiLock multi(client_, {"a", "b"});
  const auto body = [&]() -> Task {
    {
      AcquireOptions options;
      options.wait = absl::Seconds(5);
      absl::StatusOr<Lease> one = co_await read_write.AcquireReadAwaitable(options);
      absl::StatusOr<Lease> two = co_await read_write.AcquireReadAwaitable(options);
      EXPECT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
    }
    absl::StatusOr<Lease> write = co_await read_write.AcquireWriteAwaitable();
    EXPECT_TRUE(write.ok()) << write.status();
    absl::StatusOr<Permit> permit = co_await semaphore.AcquireAwaitable(2);
    EXPECT_TRUE(permit.ok()) << permit.status();
    EXPECT_EQ(permit->count(), 2);
    EXPECT_EQ(co_await permit->ReleaseAwaitable(), absl::OkStatus());
    absl::StatusOr<Lease> both = co_await multi.AcquireAwaitable();
    EXPECT_TRUE(both.ok()) << both.status();
    const absl::Status open = co_await latch.WaitAwaitable();
    EXPECT_EQ(open, absl::OkStatus());
    done = true;
  };
  const Task task = body();
  EXPECT_TRUE(RunUntil([&] { return client_.Stats().all.waiting == 1; }));
  EXPECT_FALSE(done);
  EXPECT_EQ(latch.CountDown(), absl::OkStatus());
  EXPECT_TRUE(RunUntil([&] { return done; }));
}

// All options are written in the co_await expression. Each call is stopped, so that the sanitizers
// find an option that GCC 12 destroyed twice or too early.
TEST_F(AwaitableCalls, TakeOptionsWithinBraces) {
  ReentrantReadWriteLock read_write(client_, "rw");
  Semaphore semaphore(client_, "semaphore", 1);
  CountDownLatch latch(client_, "latch", 1);
  MultiLock multi(client_, {"a", "b"});
  const Lease holds[] = {*lock_.Acquire(), *read_write.Acquire(), *multi.Acquire()};
  const Permit permit = *semaphore.Acquire();
  const std::string job = "the name of a job, too long for a string to keep within itself";
  std::stop_source stop;
  std::vector<absl::Status> ended;
  const auto read = [&]() -> Task {
    ended.push_back((co_await read_write.AcquireReadAwaitable(
                         {.wait = absl::Hours(1), .stop = stop.get_token()}))
                        .status());
  };
  const auto write = [&]() -> Task {
    ended.push_back(
        (co_await read_write.AcquireWriteAwaitable(
             {.lease = absl::Seconds(30), .stop = stop.get_token(), .owner = Owner(job)}))
            .status());
  };
  const auto one = [&]() -> Task {
    const std::stop_token token = stop.get_token();
    ended.push_back(
        (co_await lock_.AcquireAwaitable({.whole_lease = true, .stop = token})).status());
  };
  const auto all = [&]() -> Task {
    ended.push_back((co_await multi.AcquireAwaitable({.stop = stop.get_token()})).status());
  };
  const auto permits = [&]() -> Task {
    ended.push_back((co_await semaphore.AcquireAwaitable(1, {.stop = stop.get_token()})).status());
  };
  const auto open = [&]() -> Task {
    ended.push_back(co_await latch.WaitAwaitable({.stop = stop.get_token()}));
  };
  const Task tasks[] = {read(), write(), one(), all(), permits(), open()};
  ASSERT_TRUE(AwaitWaiting(std::size(tasks)));
  stop.request_stop();
  EXPECT_TRUE(RunUntil([&] { return ended.size() == std::size(tasks); }));
  for (const absl::Status& each : ended)
    EXPECT_EQ(each.code(), absl::StatusCode::kCancelled) << each;
}

// GCC 12 would destroy their members twice.
template <class Lock, class Options>
concept AcquiresWith = requires(Lock lock, Options&& options) {
  lock.AcquireAwaitable(std::forward<Options>(options));
};
static_assert(AcquiresWith<SimpleLock&, AcquireOptions&>);
static_assert(AcquiresWith<SimpleLock&, const AcquireOptions&>);
static_assert(AcquiresWith<SimpleLock&, AcquireOptionsView>);
static_assert(!AcquiresWith<SimpleLock&, AcquireOptions>);
static_assert(!AcquiresWith<SimpleLock&, const AcquireOptions>);

TEST_F(AwaitableCalls, AreCancelledWhenTheirCoroutineGoes) {
  std::optional<Lease> first = *lock_.Acquire();
  bool went_on = false;
  const auto body = [&]() -> Task {
    absl::StatusOr<Lease> lease = co_await lock_.AcquireAwaitable();
    went_on = true;
  };
  {
    const Task task = body();
    ASSERT_TRUE(AwaitWaiting(1));
  }
  EXPECT_TRUE(RunUntil([&] { return client_.Stats().all.waiting == 0; }));
  first.reset();
  EXPECT_TRUE(RunUntil([&] { return IsFree(); }));
  EXPECT_FALSE(went_on);
}

// The lease is on its way to a coroutine that is not there any more.
TEST_F(AwaitableCalls, WhatComesForACoroutineThatIsGoneIsGivenBack) {
  bool went_on = false;
  const auto body = [&]() -> Task {
    absl::StatusOr<Lease> lease = co_await lock_.AcquireAwaitable();
    went_on = true;
  };
  {
    const Task task = body();
    ASSERT_TRUE(Await([&] {
      const base::MutexLock lock(mu_);
      return !posted_.empty();
    }));
    EXPECT_FALSE(IsFree());
  }
  EXPECT_TRUE(RunUntil([&] { return IsFree(); }));
  EXPECT_FALSE(went_on);
}

TEST_F(AwaitableCalls, GoOnWithCancelledWhenTheLockGoes) {
  const Lease first = *lock_.Acquire();
  auto lock = std::make_unique<SimpleLock>(client_, "lock");
  absl::Status status;
  const auto body = [&]() -> Task { status = (co_await lock->AcquireAwaitable()).status(); };
  const Task task = body();
  ASSERT_TRUE(AwaitWaiting(1));
  lock.reset();
  EXPECT_TRUE(RunUntil([&] { return !status.ok(); }));
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST_F(AwaitableCalls, BeginWhenTheyAreAwaited) {
  { const auto unused = lock_.AcquireAwaitable(); }
  EXPECT_TRUE(IsFree());
  auto lease = lock_.Acquire();
  ASSERT_TRUE(lease.ok());
  {
    const auto unused = lease->ReleaseAwaitable();
    EXPECT_FALSE(IsFree());
  }
  EXPECT_TRUE(Await([&] { return IsFree(); }));  // it was given away
}

}  // namespace
}  // namespace redlatch
