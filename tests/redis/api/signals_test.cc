// Signals for the process, and the threads of its client.
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "src/base/thread.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/authority.h"

namespace redlatch {
namespace {

using ::testing::Contains;
using ::testing::Key;

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};

sigset_t SignalSet() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

std::atomic<int> strays{0};  // signals that no sigwait() received

// The names of this process's threads, and whether all threads of that name block the signal.
std::map<std::string, bool> Blocking(int signal) {
  std::map<std::string, bool> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const uint64_t mask = std::stoull(line.substr(7), nullptr, 16);
      const bool blocks = (mask >> (signal - 1) & 1) != 0;
      const auto known = threads.emplace(name, blocks).first;
      known->second = known->second && blocks;
    }
  }
  return threads;
}

// The fixture's own threads block the signals. The program's other threads do not, except the one
// that waits for them.
struct ClientSignals : ::testing::Test {
  ClientSignals() {
    struct sigaction stray = {};
    stray.sa_handler = [](int) { ++strays; };
    for (const int signal : kSignals) sigaction(signal, &stray, nullptr);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    server_ = RedisServer::Start();
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }
  ~ClientSignals() override {
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    for (const int signal : kSignals) ::signal(signal, SIG_DFL);
  }

  // Returns the signal that came, or -1.
  int Take() const {
    const timespec timeout = {.tv_sec = 10, .tv_nsec = 0};
    return sigtimedwait(&set_, nullptr, &timeout);
  }

  const sigset_t set_ = SignalSet();
  std::unique_ptr<RedisServer> server_;
};

TEST_F(ClientSignals, ReachTheThreadThatWaitsForThem) {
  // A name instead of an address, so that the client looks it up.
  const Client client = Connect(absl::StrCat("redis://localhost:", server_->port()));
  const Client other = Connect(server_->url());
  SimpleLock held(client, "held", {.lease = absl::Milliseconds(300)});
  SimpleLock wanted(client, "wanted");
  SimpleLock theirs(other, "wanted");
  held.lock();
  theirs.lock();
  std::thread waiter([&] {
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    wanted.lock();
    wanted.unlock();
  });
  while (theirs.Inspect()->waiting == 0) std::this_thread::yield();

  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const int signal = kSignals[static_cast<size_t>(i) % std::size(kSignals)];
    EXPECT_EQ(kill(getpid(), signal), 0);
    EXPECT_EQ(Take(), signal);
  }
  EXPECT_EQ(strays, 0);
  const auto blocking = Blocking(SIGTERM);
  EXPECT_THAT(blocking, AllOf(Contains(Key("redlatch-renew")), Contains(Key("redlatch-notify")),
                              Contains(Key("redlatch-listen"))));
  for (const auto& [name, blocks] : blocking) EXPECT_TRUE(blocks) << name;

  theirs.unlock();
  waiter.join();
  held.unlock();
}

// A signal interrupts the program's threads every millisecond, as profilers and preemptive runtimes
// do.

constexpr absl::Duration kStormGrace = absl::Milliseconds(50);
constexpr absl::Duration kWait = absl::Milliseconds(200);
constexpr char kOptions[] = "?command_timeout=200ms&connect_timeout=200ms";

std::atomic<int> signals{0};

// While it lives, the thread that made it gets a signal every millisecond. The handler does not
// restart interrupted system calls.
class Storm {
 public:
  Storm() {
    struct sigaction action = {};
    action.sa_handler = [](int) { ++signals; };
    sigaction(SIGUSR1, &action, nullptr);
    thread_ = base::StartThread("storm", [this, target = pthread_self()] {
      while (!over_) {
        pthread_kill(target, SIGUSR1);
        base::Parker().ParkUntil(base::Now() + absl::Milliseconds(1));
      }
    });
  }
  ~Storm() {
    over_ = true;
    thread_.join();
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

struct SignalStorm : ::testing::Test {
  Client NewClient() const { return Connect(server_->url() + kOptions); }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = NewClient();
  Client other_ = NewClient();
  SimpleLock lock_{client_, "lock"};
  SimpleLock theirs_{other_, "lock"};
  CountDownLatch latch_{client_, "latch", 1};
};

TEST_F(SignalStorm, EndsNoWaitEarlyOrLate) {
  theirs_.lock();
  const int before = signals;
  (void)lock_.try_lock_for(std::chrono::milliseconds(1));  // subscribes
  (void)latch_.try_wait();
  redis::Punctuality punctuality;
  const Storm storm;
  for (int i = 0; i < 5; ++i) {
    base::Instant deadline = base::Now() + kWait;
    EXPECT_FALSE(lock_.try_lock_for(absl::ToChronoNanoseconds(kWait)));
    EXPECT_GE(base::Now(), deadline);
    punctuality.Note(deadline);
    deadline = base::Now() + kWait;
    EXPECT_FALSE(latch_.wait_for(absl::ToChronoNanoseconds(kWait)));
    EXPECT_GE(base::Now(), deadline);
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kStormGrace));
  EXPECT_GT(signals - before, 100);
  theirs_.unlock();
}

TEST_F(SignalStorm, DelaysNoCallWhileServerHangs) {
  auto lease = Must(lock_.Acquire());
  SimpleLock free(client_, "free");
  free.lock();
  free.unlock();
  const Client lazy = Connect(server_->url() + kOptions, {.connect = ConnectPolicy::kLazy});
  SimpleLock first(lazy, "first");
  redis::Punctuality punctuality;
  server_->Stop();
  {
    const Storm storm;
    const auto expect_unreachable = [&](const auto& call) {
      const base::Instant deadline = base::Now() + kWait;
      EXPECT_EQ(call().code(), absl::StatusCode::kUnavailable);
      punctuality.Note(deadline);
    };
    expect_unreachable([&] { return free.Acquire({.wait = kWait}).status(); });
    expect_unreachable([&] { return free.TryAcquire().status(); });
    expect_unreachable([&] { return first.Acquire({.wait = kWait}).status(); });
    expect_unreachable([&] { return first.TryAcquire().status(); });
    expect_unreachable([&] { return Client::Connect(server_->url() + kOptions).status(); });
    expect_unreachable([&] { return client_.Ping().status(); });
    expect_unreachable([&] { return lease.Release(); });
  }
  server_->Continue();
  EXPECT_TRUE(punctuality.Within(kStormGrace));
}

TEST_F(SignalStorm, DoesNotPreventServerStart) {
  const redis::EmbeddedHome home;
  const Storm storm;
  const auto socket = Must(home.Ensure());
}

TEST(Uninterrupted, RepeatsCallAfterEachSignal) {
  int calls = 0;
  const auto interrupted_twice = [&](int result, int error) {
    return [&calls, result, error] {
      errno = ++calls < 3 ? EINTR : error;
      return calls < 3 ? -1 : result;
    };
  };
  EXPECT_EQ(base::Uninterrupted(interrupted_twice(5, 0)), 5);
  EXPECT_EQ(calls, 3);
  calls = 0;
  EXPECT_EQ(base::Uninterrupted(interrupted_twice(-1, ENXIO)), -1);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(errno, ENXIO);
}

// pthread_cancel() for threads that are in a call.

// A thread that can be cancelled, unlike std::thread.
class Thread {
 public:
  explicit Thread(std::function<void()> code) : code_(std::move(code)) {
    EXPECT_EQ(pthread_create(&thread_, nullptr, Run, this), 0);
  }
  ~Thread() { Join(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void Cancel() const { EXPECT_EQ(pthread_cancel(thread_), 0); }

  // Returns true if cancellation ended the thread.
  bool Join() {
    if (std::exchange(joined_, true)) return false;
    void* result = nullptr;
    pthread_join(thread_, &result);
    return result == PTHREAD_CANCELED;
  }

 private:
  static void* Run(void* self) {
    static_cast<Thread*>(self)->code_();
    return nullptr;
  }

  const std::function<void()> code_;
  pthread_t thread_ = {};
  bool joined_ = false;
};

struct Call {
  std::string_view name;
  std::function<void()> make;
};

// A thread that is already cancelled makes each call. Every call must return.
void ExpectToComeBack(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    SCOPED_TRACE(call.name);
    std::atomic<bool> came_back{false};
    Thread thread([&] {
      pthread_cancel(pthread_self());
      call.make();
      came_back = true;
      pthread_testcancel();
    });
    EXPECT_TRUE(thread.Join());
    EXPECT_TRUE(came_back);
  }
}

// A call that waits for what another client has, how the call ends, and how the other client
// releases it.
struct Wait {
  std::string_view name;
  std::function<void()> take;
  std::function<void()> wait;
  std::function<void()> give_up;
};

struct Cancellation : ::testing::Test {
  uint64_t waiting() const { return client_.Stats().all.waiting; }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url() + "?command_timeout=200ms");
  Client other_ = Connect(server_->url());
  SimpleLock simple_{client_, "simple"};
  SimpleLock their_simple_{other_, "simple"};
  ReentrantLock reentrant_{client_, "reentrant"};
  ReentrantReadWriteLock read_write_{client_, "read_write"};
  ReentrantReadWriteLock their_read_write_{other_, "read_write"};
  Semaphore semaphore_{client_, "semaphore", 1};
  Semaphore their_semaphore_{other_, "semaphore", 1};
  CountDownLatch latch_{client_, "latch", 1};
  SimpleLock cached_{client_, "cached", {.cache_for = absl::Seconds(20)}};
  ReentrantReadWriteLock cached_read_write_{
      client_, "cached too", {.cache_for = absl::Seconds(20)}};
  absl::StatusOr<Lease> lease_ = absl::UnknownError("");
  absl::StatusOr<Permit> permit_ = absl::UnknownError("");
};

TEST_F(Cancellation, EndsNoCallOfLock) {
  Hold hold;
  ExpectToComeBack({
      {"lock", [&] { simple_.lock(), simple_.unlock(); }},
      {"try_lock", [&] { simple_.try_lock(), simple_.unlock(); }},
      {"Acquire", [&] { lease_ = simple_.Acquire(); }},
      {"valid", [&] { hold = lease_->hold(), (void)hold.valid(), (void)hold.remaining(); }},
      {"lost", [&] { (void)lease_->lost(); }},
      {"Release", [&] { (void)lease_->Release(); }},
      {"manual", [&] { lease_ = simple_.Acquire({.lease = absl::Seconds(5)}); }},
      {"Extend", [&] { (void)lease_->Extend(absl::Seconds(6)); }},
      {"busy", [&] { EXPECT_FALSE(their_simple_.TryAcquire().ok()); }},
      {"late", [&] { EXPECT_FALSE(their_simple_.Acquire({.wait = absl::Milliseconds(5)}).ok()); }},
      {"Inspect", [&] { EXPECT_TRUE(simple_.Inspect().ok()); }},
      {"~Lease", [&] { lease_ = absl::UnknownError(""); }},
      {"ForceRelease", [&] { EXPECT_TRUE(simple_.ForceRelease().ok()); }},
      {"misuse", [&] { simple_.unlock(); }},
      {"lock_shared", [&] { read_write_.lock_shared(), read_write_.unlock_shared(); }},
      {"AcquireRead", [&] { lease_ = read_write_.AcquireRead(); }},
      {"current_read", [&] { (void)read_write_.current_read(), read_write_.read_hold_count(); }},
      {"current", [&] { (void)read_write_.current(), read_write_.hold_count(); }},
      {"~Lease of a reader", [&] { lease_ = absl::UnknownError(""); }},
      {"~SimpleLock", [&] { SimpleLock(client_, "brief").lock(); }},
  });
}

// The pairs repeat until messages are due, which the fast path reads, too.
TEST_F(Cancellation, EndsNoCallOfCachedLock) {
  const auto repeat = [](auto& lock) {
    for (int i = 0; i < 20; ++i) {
      lock.lock();
      lock.unlock();
      const base::Instant next = base::Now() + absl::Microseconds(50);
      while (base::Now() < next) {
      }
    }
  };
  ExpectToComeBack({
      {"lock", [&] { repeat(cached_); }},
      {"lock_shared", [&] { repeat(cached_read_write_.read_lock()); }},
      {"write", [&] { repeat(cached_read_write_); }},
  });
}

TEST_F(Cancellation, EndsNoCallOfSemaphoreOrLatch) {
  ExpectToComeBack({
      {"acquire", [&] { semaphore_.acquire(), semaphore_.release(); }},
      {"try_acquire", [&] { EXPECT_TRUE(semaphore_.try_acquire()); }},
      {"busy", [&] { EXPECT_FALSE(their_semaphore_.TryAcquire().ok()); }},
      {"release", [&] { semaphore_.release(); }},
      {"Acquire", [&] { permit_ = semaphore_.Acquire(); }},
      {"~Permit", [&] { permit_ = absl::UnknownError(""); }},
      {"SetCapacity", [&] { EXPECT_TRUE(semaphore_.SetCapacity(2).ok()); }},
      {"ForceRelease", [&] { EXPECT_TRUE(semaphore_.ForceRelease().ok()); }},
      {"~Semaphore", [&] { Semaphore(client_, "brief", 1).acquire(); }},
      {"try_wait", [&] { EXPECT_FALSE(latch_.try_wait()); }},
      {"wait_for", [&] { EXPECT_FALSE(latch_.wait_for(std::chrono::milliseconds(5))); }},
      {"Count", [&] { EXPECT_TRUE(latch_.Count().ok()); }},
      {"count_down", [&] { latch_.count_down(); }},
      {"wait", [&] { latch_.wait(); }},
      {"arrive_and_wait", [&] { CountDownLatch(client_, "another latch", 1).arrive_and_wait(); }},
  });
}

TEST_F(Cancellation, EndsNoCallOfClient) {
  ExpectToComeBack({
      {"Connect",
       [&] {
         const Client client = Connect("redis://localhost:" + std::to_string(server_->port()));
         SimpleLock lock(client, "lock");
         lock.lock();
       }},
      {"Connect that fails",
       [&] { EXPECT_FALSE(Client::Connect("unix:///nowhere/redis.sock").ok()); }},
      {"Ping", [&] { EXPECT_TRUE(client_.Ping().ok()); }},
      {"Stats", [&] { (void)client_.Stats(); }},
  });
}

// Each kind of server group waits in the kernel in its own way.
TEST_F(Cancellation, EndsNoCallInClusterOrQuorum) {
  support::Authority authority;
  const auto tls = RedisServer::Start(
      {.tls = support::ServerTls{.cert = authority.Certify(), .ca = authority.file()}});
  const auto sentinels = support::SentinelGroup::Start();
  const auto cluster = support::StartClusterOfOne();
  const QuorumGroup quorum(3);
  const redis::EmbeddedHome home;
  const std::string embedded = "embedded:" + home.directory() + "?connect_timeout=60s";
  for (const std::string& url :
       {tls->tls_url(), sentinels->url(), "redis-cluster" + cluster->url().substr(5), embedded}) {
    SCOPED_TRACE(url);
    ExpectToComeBack({{"all", [&] {
                         const Client client = Connect(url);
                         SimpleLock lock(client, "a");
                         MultiLock multi(client, {"c", "d"});
                         for (int i = 0; i < 3; ++i) {
                           lock.lock(), lock.unlock();
                           (void)*ReentrantReadWriteLock(client, "b").AcquireRead();
                           EXPECT_TRUE(multi.Acquire()->Release().ok());
                         }
                         EXPECT_TRUE(client.Ping().ok());
                       }}});
  }
  ExpectToComeBack({{"RedLock", [&] {
                       RedLock lock(Connect(quorum.url()), "a");
                       for (int i = 0; i < 3; ++i) lock.lock(), lock.unlock();
                     }}});
}

TEST_F(Cancellation, EndsNoUnansweredCall) {
  simple_.lock();
  lease_ = reentrant_.Acquire();
  permit_ = semaphore_.Acquire();
  server_->Stop();
  ExpectToComeBack({
      {"unlock", [&] { simple_.unlock(); }},
      {"Release", [&] { EXPECT_TRUE(absl::IsUnavailable(lease_->Release())); }},
      {"~Permit", [&] { permit_ = absl::UnknownError(""); }},
      {"Ping", [&] { EXPECT_TRUE(absl::IsUnavailable(client_.Ping().status())); }},
      {"Connect",
       [&] { EXPECT_FALSE(Client::Connect(server_->url() + "?connect_timeout=50ms").ok()); }},
  });
  server_->Continue();
}

TEST_F(Cancellation, TakesEffectAfterTheWait) {
  const AcquireOptions patient = {.wait = absl::Minutes(1)};
  const auto lock = [&] { their_simple_.lock(); };
  const auto unlock = [&] { their_simple_.unlock(); };
  const auto write = [&] { their_read_write_.lock(); };
  const auto end_write = [&] { their_read_write_.unlock(); };
  const auto acquire = [&] { their_semaphore_.acquire(); };
  const auto release = [&] { their_semaphore_.release(); };
  const Wait waits[] = {
      {"lock", lock, [&] { simple_.lock(), simple_.unlock(); }, unlock},
      {"try_lock_for", lock,
       [&] {
         EXPECT_TRUE(simple_.try_lock_for(std::chrono::minutes(1)));
         simple_.unlock();
       },
       unlock},
      {"Acquire", lock, [&] { EXPECT_TRUE(simple_.Acquire(patient).ok()); }, unlock},
      {"lock_shared", write, [&] { read_write_.lock_shared(), read_write_.unlock_shared(); },
       end_write},
      {"AcquireRead", write, [&] { EXPECT_TRUE(read_write_.AcquireRead(patient).ok()); },
       end_write},
      {"acquire", acquire, [&] { semaphore_.acquire(), semaphore_.release(); }, release},
      {"Semaphore::Acquire", acquire, [&] { EXPECT_TRUE(semaphore_.Acquire(1, patient).ok()); },
       release},
      {"wait", [] {}, [&] { latch_.wait(); }, [&] { latch_.count_down(); }}};
  for (const Wait& call : waits) {
    SCOPED_TRACE(call.name);
    call.take();
    std::atomic<bool> over{false};
    Thread thread([&] {
      call.wait();
      over = true;
      pthread_testcancel();
    });
    while (waiting() == 0) std::this_thread::yield();
    thread.Cancel();
    // If cancellation ended the call, it would be over once the server has answered.
    EXPECT_TRUE(client_.Ping().ok());
    EXPECT_EQ(waiting(), 1);
    call.give_up();
    EXPECT_TRUE(thread.Join());
    EXPECT_TRUE(over);
  }
}

}  // namespace
}  // namespace redlatch
