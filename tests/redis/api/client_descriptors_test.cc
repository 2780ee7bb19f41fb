// A program that closes the descriptors of its client, as a daemon closes all that it finds open,
// and is then given their numbers for files of its own.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/process_stats.h"
#include "tests/support/redis_server.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace redlatch {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

std::set<int> Descriptors() {
  std::set<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    if (fcntl(fd, F_GETFD) >= 0) open.insert(fd);
  }
  return open;
}

// What the program opens, each at a number that was its client's.
class Belongings {
 public:
  enum class Kind { kNothing, kFile, kSocket, kPipe, kEvent };

  Belongings(Kind kind, const std::set<int>& numbers) : kind_(kind) {
    for (const int number : numbers) Open(number);
  }
  ~Belongings() {
    for (const Thing& thing : things_) {
      if (kind_ != Kind::kNothing && IsOpen(thing)) close(thing.number);
    }
  }
  Belongings(const Belongings&) = delete;
  Belongings& operator=(const Belongings&) = delete;

  void ExpectUntouched() const {
    for (const Thing& thing : things_) {
      if (kind_ == Kind::kNothing) continue;
      EXPECT_TRUE(IsOpen(thing)) << "descriptor " << thing.number;
      EXPECT_EQ(Content(thing), kContent) << "descriptor " << thing.number;
    }
  }

 private:
  static constexpr std::string_view kContent = "as it was";
  static constexpr uint64_t kCount = 7;

  struct Thing {
    int number;
    ino_t inode;
    base::UniqueFd other_end;  // of the same, or what leads to it
  };

  static ino_t InodeOf(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 ? file.st_ino : 0;
  }
  static bool IsOpen(const Thing& thing) { return InodeOf(thing.number) == thing.inode; }

  // Behind the library's back, and behind ThreadSanitizer's: to it that is a race, as it is.
  static void TakeAway(int number) { syscall(SYS_close, number); }

  void Open(int number) {
    TakeAway(number);
    int ends[2] = {-1, -1};
    switch (kind_) {
      case Kind::kNothing:
        break;
      case Kind::kFile: {
        const std::string path = directory_.path() + "/" + std::to_string(number);
        ends[0] = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ends[1] = open(path.c_str(), O_RDWR | O_CLOEXEC);
        Put(ends[1]);
        break;
      }
      case Kind::kSocket:
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        Put(ends[1]);
        break;
      case Kind::kPipe:
        EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        Put(ends[1]);
        break;
      case Kind::kEvent:
        ends[0] = eventfd(kCount, EFD_CLOEXEC | EFD_NONBLOCK);
        break;
    }
    if (ends[0] >= 0 && ends[0] != number) {
      EXPECT_EQ(syscall(SYS_dup3, ends[0], number, O_CLOEXEC), number);
      close(ends[0]);
    }
    things_.push_back({number, InodeOf(number), base::UniqueFd(ends[1])});
  }

  static void Put(int fd) {
    EXPECT_EQ(write(fd, kContent.data(), kContent.size()), static_cast<ssize_t>(kContent.size()));
  }

  // Of what it is and what came out of it.
  std::string Content(const Thing& thing) const {
    char text[100];
    if (kind_ == Kind::kEvent) {
      uint64_t count = 0;
      return read(thing.number, &count, sizeof count) == sizeof count && count == kCount
                 ? std::string(kContent)
                 : "counted";
    }
    const ssize_t got = read(thing.number, text, sizeof text);
    if (kind_ == Kind::kSocket) {
      char sent = 0;
      if (recv(thing.other_end.get(), &sent, 1, 0) >= 0) return "written to, or shut down";
    }
    return got < 0 ? "unreadable" : std::string(text, static_cast<size_t>(got));
  }

  const Kind kind_;
  const support::TempDir directory_;
  std::vector<Thing> things_;
};

// What the program opens, and whether its client keeps the lock: then it has a gate, too.
class ClientDescriptors : public ::testing::TestWithParam<std::tuple<Belongings::Kind, bool>> {
 protected:
  ClientDescriptors() {
    EXPECT_TRUE(theirs_.Acquire()->Release().ok());
    EXPECT_EQ(server_->Text({"PING"}), "PONG");  // its own connection
    const std::set<int> before = Descriptors();
    client_.emplace(*Client::Connect(server_->url()));
    LockOptions options;
    if (std::get<bool>(GetParam())) options.keep = absl::Seconds(20);
    lock_.emplace(*client_, "lock", options);
    WaitAndLock([] {});
    lock_->unlock();
    EXPECT_TRUE(client_->Ping().ok());  // the answer to that is read
    for (const int fd : Descriptors()) {
      if (!before.contains(fd)) numbers_.insert(fd);
    }
    // Two sockets, what wakes their readers, if this thread has read, what wakes it, and a gate.
    EXPECT_THAT(numbers_.size(), ::testing::AnyOf(4, 5, 6));
  }

  void CloseAll() { belongings_.emplace(std::get<Belongings::Kind>(GetParam()), numbers_); }

  // The lock is the other client's when a thread comes that waits for it, and then `meanwhile`.
  template <class Meanwhile>
  void WaitAndLock(Meanwhile meanwhile) {
    std::promise<void> taken;
    std::thread other([&] {
      theirs_.lock();
      taken.set_value();
      while (theirs_.Inspect()->waiting == 0) std::this_thread::yield();
      meanwhile();
      theirs_.unlock();
    });
    taken.get_future().wait();
    EXPECT_TRUE(lock_->try_lock_for(absl::ToChronoSeconds(kPatience)));
    other.join();
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  Client other_ = *Client::Connect(server_->url());
  SimpleLock theirs_{other_, "lock"};
  std::optional<Client> client_;
  std::optional<SimpleLock> lock_;
  std::set<int> numbers_;
  std::optional<Belongings> belongings_;
};

TEST_P(ClientDescriptors, ThatWereClosedAreMadeAnewAndTheProgramsOwnAreLeftAlone) {
  CloseAll();
  const base::Instant end = base::Now() + kPatience;
  for (int i = 0; i < 100; ++i) {
    lock_->lock();
    lock_->unlock();
  }
  WaitAndLock([] {});
  lock_->unlock();
  EXPECT_LT(base::Now(), end);
  belongings_->ExpectUntouched();
}

TEST_P(ClientDescriptors, ThatAreClosedUnderAThreadThatWaitsAreMadeAnew) {
  WaitAndLock([&] { CloseAll(); });
  EXPECT_TRUE(lock_->current().valid());
  lock_->unlock();
  belongings_->ExpectUntouched();
}

TEST_P(ClientDescriptors, ThatWereClosedDoNotEndAHoldThatIsRenewed) {
  SimpleLock brief(*client_, "brief", {.lease = absl::Seconds(1)});
  const auto lease = brief.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  CloseAll();
  const base::Instant end = base::Now() + absl::Seconds(2);
  while (base::Now() < end && lease->valid()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(lease->valid());
  belongings_->ExpectUntouched();
}

TEST_P(ClientDescriptors, ThatWereClosedKeepNoProcessorBusy) {
  CloseAll();
  const absl::Duration used = support::ProcessCpuTime();
  const base::Instant began = base::Now();
  WaitAndLock([&] {
    while (base::Now() < began + absl::Seconds(1)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_LT(support::ProcessCpuTime() - used, (base::Now() - began) / 4);
  lock_->unlock();
}

TEST_P(ClientDescriptors, ThatWereClosedAreNotClosedAgainWhenTheClientGoes) {
  CloseAll();
  lock_.reset();
  client_.reset();
  belongings_->ExpectUntouched();
}

TEST_P(ClientDescriptors, ThatADaemonHasClosedAreNotClosedAgainByIt) {
  auto child = support::Child::Fork([&](support::LinePipe&) {
    CloseAll();
    lock_.reset();
    client_.reset();
    belongings_->ExpectUntouched();
    return HasFailure() ? 1 : 0;
  });
  const auto status = child->WaitFor(kPatience);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code, 0);
  lock_->lock();
  lock_->unlock();
}

std::string CaseName(const ::testing::TestParamInfo<std::tuple<Belongings::Kind, bool>>& info) {
  const std::string kNames[] = {"Nothing", "Files", "Sockets", "Pipes", "Events"};
  const auto [kind, keeps] = info.param;
  return kNames[static_cast<int>(kind)] + (keeps ? "BesideAKeptLock" : "");
}

INSTANTIATE_TEST_SUITE_P(
    And, ClientDescriptors,
    ::testing::Combine(::testing::Values(Belongings::Kind::kNothing, Belongings::Kind::kFile,
                                         Belongings::Kind::kSocket, Belongings::Kind::kPipe,
                                         Belongings::Kind::kEvent),
                       ::testing::Bool()),
    CaseName);

}  // namespace
}  // namespace redlatch
