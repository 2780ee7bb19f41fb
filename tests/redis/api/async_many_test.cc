// Ten thousand who wait at a time: no thread of theirs, little memory, and each in its turn.
#include <malloc.h>

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr size_t kLocks = 100;
constexpr size_t kWaiters = 10000;
constexpr double kMostBytes = 1536;
// Messages, renewals, deadlines, and all that waits.
constexpr int kMostThreads = 4;
// A wait without an end gives a silent server up after five seconds.
constexpr absl::Duration kSoon = absl::Seconds(2);

TEST(AsyncMany, WaitWithoutThreadsAndInOrder) {
  const auto server = RedisServer::Start();
  Client other = Connect(server->url());
  std::vector<std::unique_ptr<SimpleLock>> theirs;
  std::vector<Lease> held;
  for (size_t i = 0; i < kLocks; ++i) {
    theirs.push_back(std::make_unique<SimpleLock>(other, absl::StrCat("lock", i)));
    held.push_back(*theirs.back()->Acquire());
  }
  const int threads_before = support::ThreadCount();

  Client client = Connect(server->url());
  std::vector<std::unique_ptr<SimpleLock>> locks;
  for (size_t i = 0; i < kLocks; ++i) {
    locks.push_back(std::make_unique<SimpleLock>(client, absl::StrCat("lock", i)));
  }
  std::vector<std::vector<size_t>> served(kLocks);  // by the client's thread
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
  for (size_t i = 0; i < kLocks; ++i) wait(i);  // what a lock costs is no waiter's
  ASSERT_TRUE(await_waiting(kLocks));
  const size_t bytes_before = mallinfo2().uordblks;
  for (size_t i = kLocks; i < kLocks + kWaiters; ++i) wait(i);
  ASSERT_TRUE(await_waiting(kLocks + kWaiters));
  const double bytes = static_cast<double>(mallinfo2().uordblks - bytes_before);
  RecordProperty("bytes_each", absl::StrCat(bytes / kWaiters));
  // Sanitizers have an allocator of their own, which mallinfo2() does not know.
  EXPECT_LE(bytes / kWaiters, kMostBytes);
  EXPECT_LE(support::ThreadCount() - threads_before, kMostThreads);

  for (Lease& lease : held) EXPECT_TRUE(lease.Release().ok());
  ASSERT_TRUE(Await([&] { return done == kLocks + kWaiters; }, absl::Seconds(60)));
  for (size_t lock = 0; lock < kLocks; ++lock) {
    ASSERT_EQ(served[lock].size(), 1 + kWaiters / kLocks);
    EXPECT_TRUE(std::is_sorted(served[lock].begin(), served[lock].end())) << lock;
  }
}

// All begin in one turn of the client's thread. Only the first asks the server, so the others must
// not be held back until an answer comes.
TEST(AsyncMany, WaitersWithoutARequestBeginAtOnce) {
  const auto server = RedisServer::Start();
  Client other = Connect(server->url());
  SimpleLock theirs(other, "lock");
  const Lease held = *theirs.Acquire();
  Client client = Connect(server->url());
  SimpleLock lock(client, "lock");
  support::Outcomes<absl::StatusOr<Lease>> leases;
  lock.AcquireAsync({.lease = -absl::Seconds(1)}, [&](const absl::StatusOr<Lease>& refused) {
    EXPECT_FALSE(refused.ok());
    for (size_t i = 0; i < kWaiters; ++i) lock.AcquireAsync({}, leases.Callback());
  });
  EXPECT_TRUE(Await([&] { return client.Stats().all.waiting == kWaiters; }));
  EXPECT_EQ(leases.size(), 0);
}

// More than a server can answer in the command_timeout must not be sent to it at once.
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
  support::Outcomes<absl::StatusOr<Permit>> permits;
  support::Outcomes<absl::StatusOr<Permit>> marker;
  for (size_t i = 0; i < kRequests; ++i) semaphore.AcquireAsync(1, {}, permits.Callback());
  // Its completion comes behind the driver's first look at all of them.
  semaphore.AcquireAsync(-1, {}, marker.Callback());
  ASSERT_TRUE(marker.Await(1));
  ASSERT_TRUE(Await([&] { return calls() - before >= 200; }));
  EXPECT_LE(calls() - before, kMostInFlight);
  proxy.Heal();
  ASSERT_TRUE(permits.Await(kRequests, absl::Seconds(60)));
  for (size_t i = 0; i < kRequests; ++i) EXPECT_TRUE(permits.Take(i).ok());
}

// A wait that ends while its request is held back ends in time.
TEST(AsyncMany, HeldBackRequestsTimeOut) {
  const auto server = RedisServer::Start();
  Client client = Connect(server->url() + "?command_timeout=1m");
  Semaphore semaphore(client, "permits", 1);
  ASSERT_TRUE(semaphore.Acquire().ok());
  std::stop_source stop;
  support::Outcomes<absl::StatusOr<Permit>> permits;
  support::Outcomes<absl::StatusOr<Permit>> late;
  support::Outcomes<absl::StatusOr<Permit>> stopped;
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

}  // namespace
}  // namespace redlatch
