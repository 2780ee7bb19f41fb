// The asynchronous interface on one server: when and where callbacks run, and what ends a wait.
#include <malloc.h>

#include <coroutine>
#include <exception>
#include <iterator>
#include <stdexcept>

#include "redlatch/awaitable.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

struct Async : ::testing::Test {
  bool IsFree(const std::string& key = "lock") { return server_->Integer({"EXISTS", key}) == 0; }
  bool AwaitFree(const std::string& key = "lock") {
    return Await([&] { return IsFree(key); });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  std::optional<Client> client_ = Connect(server_->url());
  std::optional<SimpleLock> lock_{std::in_place, *client_, "lock"};
  Leases leases_;
  Statuses statuses_;
};

TEST_F(Async, IsCancelledIfClientGoesFirst) {
  for (size_t i = 0; i < 50; ++i) {
    std::optional<Client> client = Connect(server_->url());
    std::optional<SimpleLock> lock(std::in_place, *client, "lock");
    lock->AcquireAsync({}, leases_.Callback());
    lock.reset();
    client.reset();
    const absl::StatusOr<Lease> lease = leases_.Take(i);
    if (!lease.ok()) {
      EXPECT_EQ(lease.status().code(), absl::StatusCode::kCancelled);
    }
  }
  EXPECT_TRUE(AwaitFree());
}

// The callback keeps the client's thread from handing the grant out.
TEST_F(Async, GrantThatComesAsItsClientEndsIsGivenBack) {
  Client other = Connect(server_->url());
  std::optional<Lease> held = *SimpleLock(other, "next").Acquire();
  std::optional<SimpleLock> next(std::in_place, *client_, "next");
  next->AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(Await([&] { return client_->Stats().all.waiting == 1; }));
  std::promise<void> runs, go_on;
  lock_->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
    lease = absl::UnknownError("dropped");
    runs.set_value();
    go_on.get_future().wait();
  });
  runs.get_future().wait();
  held.reset();
  ASSERT_TRUE(Await([&] { return server_->Integer({"PTTL", "next"}) > 20'000; })) << "confirmed";
  next.reset();
  lock_.reset();
  client_.reset();
  EXPECT_TRUE(AwaitFree("next"));
  go_on.set_value();
  EXPECT_EQ(leases_.Take().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(Async, NeverRunsCallbackInsideCall) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> told{0};
  SimpleLock bad(*client_, "redlatch:bad");
  for (SimpleLock* lock : {&*lock_, &bad}) {
    lock->AcquireAsync({}, [&](const absl::StatusOr<Lease>&) {
      EXPECT_NE(std::this_thread::get_id(), caller);
      ++told;
    });
  }
  EXPECT_TRUE(Await([&] { return told == 2; }));
}

TEST_F(Async, ThrowingCallbackAffectsNoOther) {
  lock_->AcquireAsync({}, [](const absl::StatusOr<Lease>&) { throw std::runtime_error("oops"); });
  lock_->AcquireAsync({}, leases_.Callback());
  EXPECT_TRUE(leases_.Take().ok());
}

// A ClientOptions::post that misbehaves, and callbacks that do everything they may.

using Work = std::function<void()>;

struct AsyncHooks : Async {
  void Start(std::function<void(Work)> post) {
    client_ = Connect(server_->url(), {.post = std::move(post)});
    lock_.emplace(*client_, "lock");
  }
  // Acquires, and leaves the completions in loop_.
  void StartLoop() {
    Start([&](Work work) {
      loop_.push_back(std::move(work));
      size_ = loop_.size();
    });
    lock_->AcquireAsync({}, leases_.Callback());
    ASSERT_TRUE(Await([&] { return size_ == 1; }));
  }

  std::vector<Work> loop_;
  std::atomic<size_t> size_{0};
};

TEST_F(AsyncHooks, DroppedCompletionReleasesItsLease) {
  for (const bool throws : {false, true}) {
    std::atomic<bool> takes{false};
    std::atomic<int> refused{0};
    Start([&](const Work& work) {
      if (takes) return work();
      ++refused;
      if (throws) throw std::runtime_error("the loop has ended");
    });
    lock_->AcquireAsync({}, leases_.Callback());
    ASSERT_TRUE(Await([&] { return refused == 1; }));
    EXPECT_TRUE(AwaitFree());
    takes = true;
    lock_->AcquireAsync({}, leases_.Callback());
    EXPECT_TRUE(leases_.Take(throws).ok());
  }
}

TEST_F(AsyncHooks, RepeatedCompletionRunsItsCallbackOnce) {
  Start([](const Work& work) {
    work();
    work();
  });
  lock_->AcquireAsync({}, leases_.Callback());
  auto lease = Must(leases_.Take());
  lease.ReleaseAsync(statuses_.Callback());
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());
  EXPECT_EQ(leases_.size(), 1U);
}

TEST_F(AsyncHooks, InlineCallbackMayDestroyClient) {
  for (int i = 0; i < 20; ++i) {
    Start([](const Work& work) { work(); });
    std::atomic<bool> done{false};
    lock_->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      EXPECT_TRUE(lease.ok()) << lease.status();
      lock_.reset();
      client_.reset();
      lease = Lease();
      done = true;
    });
    ASSERT_TRUE(Await([&] { return done.load(); }));
  }
  EXPECT_TRUE(AwaitFree());
}

TEST_F(AsyncHooks, CompletionsRunWhereHookPutsThem) {
  StartLoop();
  EXPECT_EQ(leases_.size(), 0U);
  loop_[0]();
  auto lease = Must(leases_.Take());
  lease.ReleaseAsync(statuses_.Callback());
  EXPECT_TRUE(Await([&] { return size_ == 2; }));
  EXPECT_EQ(statuses_.size(), 0U);
  loop_[1]();
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());
}

TEST_F(AsyncHooks, LoopMayRunCompletionsAfterClient) {
  StartLoop();
  lock_.reset();
  client_.reset();
  loop_[0]();
  auto lease = Must(leases_.Take());
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(lease.Release(), absl::OkStatus());
  EXPECT_TRUE(AwaitFree());
}

// The callback runs on the client's own thread, so what it waits for must not need that thread.
TEST_F(AsyncHooks, CallbackMayBlock) {
  Start(nullptr);
  SimpleLock second(*client_, "second");
  Client other = Connect(server_->url());
  std::optional<Lease> held = *SimpleLock(other, "second").Acquire();
  lock_->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
    EXPECT_TRUE(lease.ok()) << lease.status();
    absl::StatusOr<Lease> inner = second.Acquire({.wait = absl::Seconds(10)});
    EXPECT_TRUE(inner.ok()) << inner.status();
    absl::Status released = inner.ok() ? inner->Release() : inner.status();
    if (released.ok()) released = lease->Release();
    statuses_.Callback()(released);
  });
  ASSERT_TRUE(Await([&] { return client_->Stats().all.waiting == 1; }));
  held.reset();
  EXPECT_EQ(statuses_.Take(), absl::OkStatus());
}

// The asynchronous interface of everything else: readers, permits, latches, several locks at once,
// several servers, replica acks.

constexpr auto kCancelled = absl::StatusCode::kCancelled;

struct AsyncKinds : ::testing::Test {
  static bool AwaitWaiting(const Client& client, uint64_t count) {
    return Await([&] { return client.Stats().all.waiting == count; });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url());
  Client other_ = Connect(server_->url());
  Statuses statuses_;
};

TEST_F(AsyncKinds, LatchDestructorEndsWait) {
  auto latch = std::make_unique<CountDownLatch>(client_, "latch", 1);
  std::stop_source stop;
  latch->WaitAsync({.stop = stop.get_token()}, statuses_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 1));
  stop.request_stop();
  EXPECT_EQ(statuses_.Take(0).code(), kCancelled);
  latch->WaitAsync({}, statuses_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 1));
  latch.reset();
  EXPECT_EQ(statuses_.Take(1).code(), kCancelled);
  CountDownLatch(client_, "another", 1).WaitAsync({}, statuses_.Callback());
  EXPECT_EQ(statuses_.Take(2).code(), kCancelled);
}

TEST_F(AsyncKinds, NullCallbacksLeaveNothingHeld) {
  SimpleLock simple(client_, "simple");
  ReentrantReadWriteLock read_write(client_, "read_write");
  Semaphore semaphore(client_, "semaphore", 1);
  CountDownLatch latch(client_, "latch", 1);
  MultiLock multi(client_, {"c", "d"});
  SimpleLock theirs(other_, "theirs");
  MultiLock apart(std::vector<MultiLock::Part>{&simple, &theirs});
  for (int i = 0; i < 2; ++i) {
    simple.AcquireAsync({}, nullptr);
    read_write.AcquireReadAsync({}, nullptr);
    read_write.AcquireWriteAsync({}, nullptr);
    semaphore.AcquireAsync(1, {}, nullptr);
    semaphore.AcquireAsync(-1, {}, nullptr);
    latch.WaitAsync({.wait = absl::ZeroDuration()}, nullptr);
    latch.WaitAsync({}, nullptr);
    multi.AcquireAsync({}, nullptr);
    apart.AcquireAsync({}, nullptr);
    MultiLock(std::vector<MultiLock::Part>()).AcquireAsync({}, nullptr);
    Lease().ReleaseAsync(nullptr);
    simple.Acquire()->ReleaseAsync(nullptr);
    semaphore.Acquire()->ReleaseAsync(nullptr);
  }
  latch.count_down();
  EXPECT_TRUE(simple.Acquire().ok());
  EXPECT_TRUE(theirs.Acquire().ok());
  EXPECT_TRUE(read_write.Acquire().ok());
  EXPECT_TRUE(semaphore.Acquire().ok());
  EXPECT_TRUE(multi.Acquire().ok());
}

// Under TSan, this finds races.
template <class Handle>
void ReleaseWhileOthersLook(Handle handle) {
  Statuses statuses;
  std::atomic<bool> goes{false};
  Crew others;
  others.Start(2, [&](int) {
    while (!goes) std::this_thread::yield();
    for (int round = 0; round < 20; ++round) {
      if (!handle.valid()) {
        EXPECT_LE(handle.remaining(), absl::ZeroDuration());
      }
      EXPECT_FALSE(handle.lost().stop_requested());
      handle.Extend(absl::Minutes(1)).IgnoreError();
    }
    EXPECT_EQ(handle.Release(), absl::OkStatus());
    EXPECT_FALSE(handle.valid());
  });
  goes = true;
  handle.ReleaseAsync(statuses.Callback());
  others.Join();
  handle.ReleaseAsync(statuses.Callback());
  EXPECT_EQ(statuses.Take(0), absl::OkStatus());
  EXPECT_EQ(statuses.Take(1), absl::OkStatus());
}

TEST_F(AsyncKinds, HandlesMayBeReleasedConcurrently) {
  SimpleLock simple(client_, "simple");
  ReentrantReadWriteLock rw(client_, "rw");
  MultiLock multi({&rw.read_lock(), &simple});
  Semaphore semaphore(client_, "semaphore", 2);
  for (int i = 0; i < 20; ++i) {
    ReleaseWhileOthersLook(*simple.Acquire({.lease = absl::Seconds(30)}));
    ReleaseWhileOthersLook(*multi.Acquire());
    ReleaseWhileOthersLook(*semaphore.Acquire(2));
  }
  EXPECT_TRUE(simple.TryAcquire().ok());
  EXPECT_TRUE(semaphore.TryAcquire(2).ok());
}

// The callback of the release runs while the capture of `on_lost` is the last handle of the client.
TEST_F(AsyncKinds, OnLostMayOwnLastClient) {
  for (const bool awaited : {true, false}) {
    std::optional<Client> client = Connect(server_->url());
    std::optional<SimpleLock> lock(std::in_place, *client, "lock",
                                   LockOptions{.on_lost = [kept = *client](const LostLease&) {}});
    Statuses statuses;
    lock->AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      EXPECT_TRUE(lease.ok()) << lease.status();
      lock.reset();
      client.reset();
      if (awaited) return lease->ReleaseAsync(statuses.Callback());
      lease = absl::UnknownError("dropped");
      statuses.Callback()(absl::OkStatus());
    });
    EXPECT_EQ(statuses.Take(), absl::OkStatus());
    EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "lock"}) == 0; }));
  }
}

// Ten thousand waiters at a time: no thread per waiter, little memory, and each in its turn.

constexpr size_t kLocks = 100;
constexpr size_t kWaiters = 10000;
constexpr double kMostBytes = 1536;
// For messages, renewals, deadlines, and the event driver.
constexpr int kMostThreads = 4;
// An endless wait gives up on a silent server after five seconds.
constexpr absl::Duration kSoon = absl::Seconds(2);

TEST(AsyncMany, WaitersNeedNoThreadsAndKeepOrder) {
  const auto server = RedisServer::Start();
  Client other = Connect(server->url() + "?command_timeout=1m");
  std::vector<Lease> held;
  for (size_t i = 0; i < kLocks; ++i) {
    held.push_back(*SimpleLock(other, absl::StrCat("lock", i)).Acquire());
  }
  const int threads_before = support::ThreadCount();

  Client client = Connect(server->url() + "?command_timeout=1m");
  std::vector<std::unique_ptr<SimpleLock>> locks;
  for (size_t i = 0; i < kLocks; ++i) {
    locks.push_back(std::make_unique<SimpleLock>(client, absl::StrCat("lock", i)));
  }
  std::vector<std::vector<size_t>> served(kLocks);  // written by the client's thread
  std::atomic<size_t> done{0};
  const auto wait = [&](size_t i) {
    locks[i % kLocks]->AcquireAsync({}, [&, i](absl::StatusOr<Lease> lease) {
      ASSERT_TRUE(lease.ok()) << lease.status();
      EXPECT_TRUE(lease->valid());
      served[i % kLocks].push_back(i);
      lease->ReleaseAsync([&](const absl::Status& released) {
        EXPECT_TRUE(released.ok()) << released;
        ++done;
      });
    });
  };
  const auto await_waiting = [&](size_t count) {
    return Await([&] { return client.Stats().all.waiting == count; });
  };
  // each lock costs memory once, which is not a waiter's
  for (size_t i = 0; i < kLocks; ++i) wait(i);
  ASSERT_TRUE(await_waiting(kLocks));
  const size_t bytes_before = mallinfo2().uordblks;
  for (size_t i = kLocks; i < kLocks + kWaiters; ++i) wait(i);
  ASSERT_TRUE(await_waiting(kLocks + kWaiters));
  const double bytes = static_cast<double>(mallinfo2().uordblks - bytes_before);
  RecordProperty("bytes_each", absl::StrCat(bytes / kWaiters));
  // Sanitizers replace the allocator, so mallinfo2() knows nothing.
  EXPECT_LE(bytes / kWaiters, kMostBytes);
  EXPECT_LE(support::ThreadCount() - threads_before, kMostThreads);

  for (Lease& lease : held) EXPECT_TRUE(lease.Release().ok());
  ASSERT_TRUE(Await([&] { return done == kLocks + kWaiters; }, absl::Seconds(60)));
  for (size_t lock = 0; lock < kLocks; ++lock) {
    ASSERT_EQ(served[lock].size(), 1 + kWaiters / kLocks);
    EXPECT_TRUE(std::is_sorted(served[lock].begin(), served[lock].end())) << lock;
  }
}

// All waiters start in one pass of the client's thread. Only the first asks the server, so the
// others must not be postponed until its reply arrives.
TEST(AsyncMany, WaitersWithoutRequestStartAtOnce) {
  const auto server = RedisServer::Start();
  Client other = Connect(server->url());
  const Lease held = *SimpleLock(other, "lock").Acquire();
  Client client = Connect(server->url());
  SimpleLock lock(client, "lock");
  Leases leases;
  lock.AcquireAsync({.lease = -absl::Seconds(1)}, [&](const absl::StatusOr<Lease>& refused) {
    EXPECT_FALSE(refused.ok());
    for (size_t i = 0; i < kWaiters; ++i) lock.AcquireAsync({}, leases.Callback());
  });
  EXPECT_TRUE(Await([&] { return client.Stats().all.waiting == kWaiters; }));
  EXPECT_EQ(leases.size(), 0);
}

// The client must not send more requests at once than a server can answer within the
// command_timeout.
TEST(AsyncMany, RequestsInFlightAreBounded) {
  constexpr size_t kRequests = 2000;
  constexpr int64_t kMostInFlight = 300;
  const auto server = RedisServer::Start();
  TcpProxy proxy({.port = server->port()});
  Client client = Connect(proxy.url() + "?command_timeout=1m");
  Semaphore semaphore(client, "permits", kRequests);
  ASSERT_TRUE(semaphore.Acquire().ok());
  const auto calls = [&] { return server->Calls({"evalsha"}); };
  const int64_t before = calls();
  proxy.Hold(Direction::kToClient);
  Permits permits, marker;
  for (size_t i = 0; i < kRequests; ++i) semaphore.AcquireAsync(1, {}, permits.Callback());
  // It completes only after the driver has seen all of them once.
  semaphore.AcquireAsync(-1, {}, marker.Callback());
  ASSERT_TRUE(marker.Await(1));
  ASSERT_TRUE(Await([&] { return calls() - before >= 200; }));
  EXPECT_LE(calls() - before, kMostInFlight);
  proxy.Heal();
  ASSERT_TRUE(permits.Await(kRequests, absl::Seconds(60)));
  for (size_t i = 0; i < kRequests; ++i) EXPECT_TRUE(permits.Take(i).ok());
}

// A wait ends in time even if its request is still postponed.
TEST(AsyncMany, PostponedRequestsTimeOut) {
  const auto server = RedisServer::Start();
  Client client = Connect(server->url() + "?command_timeout=1m");
  Semaphore semaphore(client, "permits", 1);
  ASSERT_TRUE(semaphore.Acquire().ok());
  std::stop_source stop;
  Permits permits, late, stopped;
  server->Stop();
  for (int i = 0; i < 1000; ++i) semaphore.AcquireAsync(1, {}, permits.Callback());
  semaphore.AcquireAsync(1, {.wait = absl::Milliseconds(10)}, late.Callback());
  semaphore.AcquireAsync(1, {.stop = stop.get_token()}, stopped.Callback());
  EXPECT_TRUE(late.Await(1));
  stop.request_stop();
  EXPECT_TRUE(stopped.Await(1, kSoon));
  EXPECT_EQ(permits.size(), 0);
  server->Continue();
}

// co_await, from the test's own coroutine type.

// Starts at once. Its destructor destroys the coroutine, suspended or not.
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

struct AwaitableCalls : ::testing::Test {
  // Coroutines resume on the test's own thread.
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

TEST_F(AwaitableCalls, RunOneAfterTheOther) {
  bool done = false;
  const std::thread::id here = std::this_thread::get_id();
  const auto body = [&]() -> Task {
    for (int i = 0; i < 3; ++i) {
      auto lease = Must(co_await lock_.AcquireAwaitable({.wait = absl::Seconds(5)}));
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_TRUE(lease.valid());
      const absl::Status released = co_await lease.ReleaseAwaitable();
      EXPECT_EQ(released, absl::OkStatus());
      EXPECT_TRUE(IsFree());
    }
    done = true;
  };
  const Task task = body();
  EXPECT_TRUE(RunUntil([&] { return done; }));
}

TEST_F(AwaitableCalls, WorkForEveryKind) {
  bool done = false;
  ReentrantReadWriteLock read_write(client_, "rw");
  CountDownLatch latch(client_, "latch", 1);
  MultiLock multi(client_, {"a", "b"});
  Election election(client_, "election");
  const auto body = [&]() -> Task {
    {
      AcquireOptions options;
      options.wait = absl::Seconds(5);
      absl::StatusOr<Lease> one = co_await read_write.AcquireReadAwaitable(options);
      absl::StatusOr<Lease> two = co_await read_write.AcquireReadAwaitable(options);
      EXPECT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
    }
    auto write = Must(co_await read_write.AcquireWriteAwaitable());
    auto permit = Must(co_await Semaphore(client_, "semaphore", 3).AcquireAwaitable(2));
    EXPECT_EQ(permit.count(), 2);
    EXPECT_EQ(co_await permit.ReleaseAwaitable(), absl::OkStatus());
    auto both = Must(co_await multi.AcquireAwaitable());
    auto leads = Must(co_await election.CampaignAwaitable("value"));
    EXPECT_EQ((**election.Leader()).value, "value");
    EXPECT_EQ(co_await leads.ReleaseAwaitable(), absl::OkStatus());
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

// The co_await expression contains all options. Each call is stopped, so that the sanitizers find
// options that GCC 12 would destroy twice or too early.
TEST_F(AwaitableCalls, AcceptBracedOptions) {
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
    ended.push_back((co_await read_write.AcquireAwaitableAs(
                         Owner(job), {.lease = absl::Seconds(30), .stop = stop.get_token()}))
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

TEST_F(AwaitableCalls, AreCancelledWithTheirCoroutine) {
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

// The lease arrives for a coroutine that is already destroyed.
TEST_F(AwaitableCalls, LeaseForDestroyedCoroutineIsReleased) {
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

TEST_F(AwaitableCalls, StartWhenAwaited) {
  { const auto unused = lock_.AcquireAwaitable(); }
  EXPECT_TRUE(IsFree());
  auto lease = Must(lock_.Acquire());
  {
    const auto unused = lease.ReleaseAwaitable();
    EXPECT_FALSE(IsFree());
  }
  EXPECT_TRUE(Await([&] { return IsFree(); }));  // the lease was released
}

}  // namespace
}  // namespace redlatch
