// Processes read and write, downgrade and are killed at random; then the history of it is checked,
// see tests/support/history_checker.h: writers are disjoint from everybody else.
//
//   REDLATCH_SOAK=180        seconds of it, by 12 processes. Where unset: 3 s, 5 processes
//   REDLATCH_SOAK_SEED=...   the one that a failure printed
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_checker.h"
#include "tests/support/lock_history.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace redlatch {
namespace {

using soak::Dice;
using soak::Pass;

constexpr int kLocks = 2;  // the first prefers writers, the second is fair to phases
constexpr int kThreads = 3;
constexpr absl::Duration kShortest = absl::Milliseconds(200);
constexpr absl::Duration kLongest = absl::Milliseconds(500);
constexpr absl::Duration kHeartbeat = absl::Milliseconds(2500);  // of who waits, and some more

std::unique_ptr<ReentrantReadWriteLock> MakeLock(const Client& client, int lock,
                                                 LockOptions options) {
  using Policy = ReentrantReadWriteLock::Policy;
  return std::make_unique<ReentrantReadWriteLock>(
      client, absl::StrCat("history-", lock), std::move(options),
      lock == 0 ? Policy::kWriterFirst : Policy::kPhaseFair);
}

// One thread's work.
class Worker {
 public:
  Worker(const Client& client, support::HistoryWriter& history, int thread, uint64_t seed)
      : history_(history), thread_(thread), dice_(seed) {
    for (int lock = 0; lock < kLocks; ++lock) {
      const absl::Duration lease = dice_.Between(kShortest, kLongest);
      locks_.push_back(MakeLock(client, lock, {.lease = lease}));
    }
  }

  void Work(const std::atomic<bool>& stopping) {
    while (!stopping && !history_.full()) {
      lock_ = dice_.Below(kLocks);
      dice_.OneIn(4) ? Write() : Read();
      if (dice_.OneIn(4)) Pass(dice_.Between(absl::ZeroDuration(), absl::Milliseconds(5)));
    }
  }

 private:
  ReentrantReadWriteLock& lock() { return *locks_[static_cast<size_t>(lock_)]; }

  AcquireOptions Options() {
    AcquireOptions options;
    const int way = dice_.Below(6);
    if (way == 0) options.wait = absl::ZeroDuration();
    if (way == 1 || way == 2) options.wait = dice_.Between(absl::Milliseconds(1), kLongest);
    if (way == 2) options.lease = dice_.Between(kShortest, kLongest);
    return options;
  }

  // The lease is OK, or it had to be expected that it is not.
  bool Note(uint32_t number, const absl::StatusOr<Lease>& lease) {
    if (lease.ok()) {
      history_.Held(number, lease->fencing_token().value());
      Sample(number, *lease);
      return true;
    }
    history_.Refused(number);
    EXPECT_TRUE(IsBusy(lease.status()) || absl::IsUnavailable(lease.status())) << lease.status();
    return false;
  }

  void Sample(uint32_t number, const Hold& hold) {
    const base::Instant asked = base::Now();
    history_.Remaining(number, asked, hold.remaining());
    if (hold.lost().stop_requested()) history_.Lost(number);
  }

  // Mostly short, now and then beyond a renewal, or the end of a manual lease.
  void Keep(uint32_t number, const Lease& lease) {
    if (dice_.OneIn(2)) return;
    Pass(dice_.Between(absl::ZeroDuration(),
                       dice_.OneIn(20) ? kLongest * 1.2 : absl::Milliseconds(3)));
    Sample(number, lease);
  }

  void Release(uint32_t number, Lease& lease) {
    history_.ReleaseInvoked(number);
    if (dice_.OneIn(8)) {
      const Lease ended = std::move(lease);  // the destructor's part
      return;
    }
    const absl::Status released = lease.Release();
    EXPECT_TRUE(released.ok() || IsLeaseLost(released) || absl::IsUnavailable(released))
        << released;
  }

  void Read() {
    const AcquireOptions options = Options();
    const bool waits = options.wait == absl::InfiniteDuration();
    const uint32_t number = history_.Invoke(lock_, thread_, waits, /*shared=*/true);
    absl::StatusOr<Lease> lease = lock().AcquireRead(options);
    if (!Note(number, lease)) return;
    Keep(number, *lease);
    if (dice_.OneIn(10)) {  // an upgrade; where the read was lost meanwhile, a write
      const uint32_t upgrade = history_.Invoke(lock_, thread_, /*waits=*/false);
      absl::StatusOr<Lease> written = lock().AcquireWrite({.wait = absl::ZeroDuration()});
      if (IsMisuse(written.status())) {
        history_.Refused(upgrade);
      } else if (Note(upgrade, written)) {
        EXPECT_FALSE(lease->valid());
        Release(upgrade, *written);
      }
    }
    Release(number, *lease);
  }

  void Write() {
    const AcquireOptions options = Options();
    const bool waits = options.wait == absl::InfiniteDuration();
    const uint32_t number = history_.Invoke(lock_, thread_, waits);
    absl::StatusOr<Lease> lease = lock().AcquireWrite(options);
    if (!Note(number, lease)) return;
    Keep(number, *lease);
    if (dice_.OneIn(3)) return Downgrade(number, *lease);
    Release(number, *lease);
  }

  void Downgrade(uint32_t write, Lease& written) {
    const uint32_t number = history_.Invoke(lock_, thread_, /*waits=*/false, /*shared=*/true);
    absl::StatusOr<Lease> lease = lock().AcquireRead({.wait = absl::ZeroDuration()});
    const bool reads = Note(number, lease);
    Release(write, written);
    if (!reads) return;
    Keep(number, *lease);
    Release(number, *lease);
  }

  support::HistoryWriter& history_;
  const int thread_;
  Dice dice_;
  std::vector<std::unique_ptr<ReentrantReadWriteLock>> locks_;
  int lock_ = 0;
};

REDLATCH_CHILD(ReadWriteWorker) {
  support::HistoryWriter history(args.at(1), std::stoi(args.at(2)));
  Dice dice(std::stoull(args.at(3)));
  std::atomic<bool> stopping{false};
  const absl::StatusOr<Client> client = Client::Connect(args.at(0));
  if (!client.ok()) return 2;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i, seed = dice.Seed()] { Worker(*client, history, i, seed).Work(stopping); });
  }
  (void)parent.ReadLine(absl::Hours(1));
  stopping = true;
  for (std::thread& thread : threads) thread.join();
  return 0;
}

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoll(value, nullptr, 10);
}

class ReadWriteHistory : public ::testing::Test {
 protected:
  void Spawn(size_t member, uint64_t seed) {
    histories_.push_back(absl::StrCat(directory_.path(), "/", histories_.size()));
    members_[member] = support::SpawnChild(
        "ReadWriteWorker",
        {server_->url(), histories_.back(), absl::StrCat(histories_.size()), absl::StrCat(seed)});
  }

  // All end, and have nothing to complain about.
  void Dismiss() {
    for (const auto& member : members_) member->pipe().WriteLine("stop");
    const base::Instant until = base::Now() + absl::Seconds(30);
    for (const auto& member : members_) {
      const auto status = member->WaitFor(base::Until(until));
      ASSERT_TRUE(status.has_value()) << "a process does not end";
      EXPECT_TRUE(status->success()) << "code " << status->code << ", signal " << status->signal;
    }
  }

  support::History Read() const {
    support::History history;
    for (const std::string& path : histories_) {
      const auto part = support::ReadHistory(path);
      history.acquisitions.insert(history.acquisitions.end(), part.begin(), part.end());
    }
    return history;
  }

  static void Report(const std::vector<std::string>& violations) {
    constexpr size_t kShown = 10;
    for (size_t i = 0; i < std::min(kShown, violations.size()); ++i) ADD_FAILURE() << violations[i];
    if (violations.size() > kShown) ADD_FAILURE() << violations.size() << " in all";
  }

  const support::TempDir directory_;
  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  std::vector<std::string> histories_;
  std::vector<std::unique_ptr<support::Child>> members_;
};

TEST_F(ReadWriteHistory, OfProcessesThatDieAtRandomNeverShowsAWriterBesideAnother) {
  const int64_t seconds = FromEnvironment("REDLATCH_SOAK", 0);
  const auto seed = static_cast<uint64_t>(FromEnvironment(
      "REDLATCH_SOAK_SEED", static_cast<int64_t>(base::RandomBits() % 1'000'000'000)));
  std::printf("REDLATCH_SOAK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Dice dice(seed);
  members_.resize(seconds > 0 ? 12 : 5);
  for (size_t i = 0; i < members_.size(); ++i) Spawn(i, dice.Seed());
  const base::Instant end = base::Now() + absl::Seconds(seconds > 0 ? seconds : 3);
  while (base::Now() < end) {
    Pass(dice.Between(absl::Milliseconds(20), absl::Milliseconds(400)));
    const auto victim = static_cast<size_t>(dice.Below(static_cast<int>(members_.size())));
    members_[victim]->Kill();
    Spawn(victim, dice.Seed());
  }
  Dismiss();

  // What the dead have left is over when their leases are: whoever comes behind them in the queue
  // sees it with the next heartbeat.
  const Client client = *Client::Connect(server_->url());
  for (int lock = 0; lock < kLocks; ++lock) {
    EXPECT_TRUE(MakeLock(client, lock, {})->AcquireWrite({.wait = kLongest + kHeartbeat}).ok())
        << lock;
  }
  const support::History history = Read();
  Report(support::CheckExclusion(history));
  Report(support::CheckTokens(history));
  int64_t reads = 0;
  int64_t writes = 0;
  for (const support::Acquisition& one : history.acquisitions) {
    if (one.outcome == support::Acquisition::Outcome::kHeld) ++(one.shared ? reads : writes);
  }
  EXPECT_GT(reads, 0);
  EXPECT_GT(writes, 0);
  std::printf("%zu calls, %lld reads and %lld writes by %zu processes\n",
              history.acquisitions.size(), static_cast<long long>(reads),
              static_cast<long long>(writes), histories_.size());
}

}  // namespace
}  // namespace redlatch
