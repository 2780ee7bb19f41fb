// Signals that are meant for the process, and the threads of its client.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using ::testing::AllOf;
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
    server_ = support::RedisServer::Start();
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
  std::unique_ptr<support::RedisServer> server_;
};

TEST_F(ClientSignals, ReachTheThreadThatWaitsForThemWhateverThreadsTheClientHas) {
  // By name, so that it is looked up.
  const auto client = Client::Connect(absl::StrCat("redis://localhost:", server_->port()));
  ASSERT_TRUE(client.ok()) << client.status();
  const auto other = Client::Connect(server_->url());
  ASSERT_TRUE(other.ok()) << other.status();
  SimpleLock held(*client, "held", {.lease = absl::Milliseconds(300)});
  SimpleLock wanted(*client, "wanted");
  SimpleLock theirs(*other, "wanted");
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

}  // namespace
}  // namespace redlatch
