// Signals that are meant for the process, and the threads of its client.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "src/base/thread.h"
#include "src/base/uninterrupted.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/live_testing.h"

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

std::atomic<int> strays{0};  // signals that no sigwait() got

// The threads of this process by name, and whether all of that name block the signal.
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

// The fixture's own threads block the signals; the program's other threads do not, but for the one
// that waits for them.
class ClientSignals : public ::testing::Test {
 protected:
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

  // The signal that came, or -1.
  int Take() const {
    const timespec patience = {.tv_sec = 10, .tv_nsec = 0};
    return sigtimedwait(&set_, nullptr, &patience);
  }

  const sigset_t set_ = SignalSet();
  std::unique_ptr<RedisServer> server_;
};

TEST_F(ClientSignals, ReachTheThreadThatWaitsForThemWhateverThreadsTheClientHas) {
  // By name, so that it is looked up.
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

// A program whose threads are interrupted by a signal each millisecond, as those of a profiler or
// of a runtime that preempts its threads are.

constexpr absl::Duration kStormGrace = absl::Milliseconds(50);
constexpr absl::Duration kWait = absl::Milliseconds(200);
constexpr char kOptions[] = "?command_timeout=200ms&connect_timeout=200ms";

std::atomic<int> signals{0};

// While it lives, the thread that made it gets a signal each millisecond, by a handler that does
// not restart what it interrupts.
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

class SignalStorm : public ::testing::Test {
 protected:
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
  (void)lock_.try_lock_for(std::chrono::milliseconds(1));  // the subscription is made
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

TEST_F(SignalStorm, KeepsNoCallFromEndingInTimeThoughTheServerHangs) {
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

TEST_F(SignalStorm, IsNoReasonNotToStartAServer) {
  const redis::EmbeddedHome home;
  const Storm storm;
  const auto socket = home.Ensure();
  EXPECT_TRUE(socket.ok()) << socket.status();
}

TEST(Uninterrupted, IsCalledAgainForAsLongAsASignalInterruptsIt) {
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

}  // namespace
}  // namespace redlatch
