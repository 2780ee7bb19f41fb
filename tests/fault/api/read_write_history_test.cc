// Processes read and write, downgrade and are killed at random; then the history of it is checked,
// see tests/support/history_check/history_check.md: writers are disjoint from everybody else.
//
//   REDLATCH_SOAK=180        seconds of it, by 12 processes. Where unset: 3 s, 5 processes
//   REDLATCH_SOAK_SEED=...   the one that a failure printed
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
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
#include "tests/fault/soak/child.h"
#include "tests/fault/soak/plan.h"
#include "tests/fault/soak/worker.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_check/history_event.h"
#include "tests/support/history_writer.h"
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

class ReadWriteWorker : public soak::Worker {
 public:
  explicit ReadWriteWorker(const soak::Task& task) : Worker(task) {
    most_idle_ = absl::Milliseconds(5);
    shortest_lease_ = kShortest;
    for (int lock = 0; lock < kLocks; ++lock) {
      const absl::Duration lease = dice_.Between(kShortest, kLongest);
      locks_.push_back(MakeLock(task.client, lock, {.lease = lease}));
    }
  }

 private:
  void Round() override {
    lock_ = dice_.Below(kLocks);
    dice_.OneIn(4) ? Write() : Read();
  }
  absl::Duration HowLong() override {
    if (dice_.OneIn(2)) return absl::ZeroDuration();
    return dice_.Between(absl::ZeroDuration(),
                         dice_.OneIn(20) ? longest_lease_ * 1.2 : absl::Milliseconds(3));
  }
  ReentrantReadWriteLock& lock() { return *locks_[static_cast<size_t>(lock_)]; }

  uint32_t Invoke(history::Kind kind, bool waits) {
    return history_.Invoke(absl::StrCat("history-", lock_), kind, thread_, waits);
  }
  bool Note(uint32_t number, const absl::StatusOr<Lease>& lease) {
    if (!Entered(number, lease.status())) return false;
    Holds(number, lease->fencing_token().value());
    Sample(number, *lease);
    return true;
  }

  void Read() {
    const AcquireOptions options = AnyOptions();
    const uint32_t number = Invoke(history::Kind::kRead, Waits(options));
    absl::StatusOr<Lease> lease = lock().AcquireRead(options);
    if (!Note(number, lease)) return;
    Keep(number, *lease);
    if (dice_.OneIn(10)) {  // an upgrade; where the read was lost meanwhile, a write
      const uint32_t upgrade = Invoke(history::Kind::kWrite, /*waits=*/false);
      absl::StatusOr<Lease> written = lock().AcquireWrite({.wait = absl::ZeroDuration()});
      if (IsMisuse(written.status())) {
        history_.Refused(upgrade, /*certainly=*/true);
      } else if (Note(upgrade, written)) {
        EXPECT_FALSE(lease->valid());
        Release(upgrade, *written);
      }
    }
    Release(number, *lease);
  }

  void Write() {
    const AcquireOptions options = AnyOptions();
    const uint32_t number = Invoke(history::Kind::kWrite, Waits(options));
    absl::StatusOr<Lease> lease = lock().AcquireWrite(options);
    if (!Note(number, lease)) return;
    Keep(number, *lease);
    if (dice_.OneIn(3)) return Downgrade(number, *lease);
    Release(number, *lease);
  }

  void Downgrade(uint32_t write, Lease& written) {
    const uint32_t number = Invoke(history::Kind::kRead, /*waits=*/false);
    absl::StatusOr<Lease> lease = lock().AcquireRead({.wait = absl::ZeroDuration()});
    const bool reads = Note(number, lease);
    Release(write, written);
    if (!reads) return;
    Keep(number, *lease);
    Release(number, *lease);
  }

  std::vector<std::unique_ptr<ReentrantReadWriteLock>> locks_;
  int lock_ = 0;
};

REDLATCH_CHILD(ReadWriteWorker) {
  return soak::RunWorkers<ReadWriteWorker>(parent, args, kThreads);
}

class ReadWriteHistory : public ::testing::Test {
 protected:
  void Spawn(size_t member, uint64_t seed) {
    histories_.push_back(absl::StrCat(directory_.path(), "/", histories_.size()));
    const std::ofstream exists(histories_.back());  // even if it is killed before it writes
    members_[member] = support::SpawnChild(
        "ReadWriteWorker", {server_->url(), histories_.back(), absl::StrCat(histories_.size()),
                            absl::StrCat(seed), absl::FormatDuration(kLongest)});
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

  const support::TempDir directory_;
  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  std::vector<std::string> histories_;
  std::vector<std::unique_ptr<support::Child>> members_;
};

TEST_F(ReadWriteHistory, OfProcessesThatDieAtRandomNeverShowsAWriterBesideAnother) {
  const int64_t seconds = soak::FromEnvironment("REDLATCH_SOAK", 0);
  Dice dice(soak::SeedOfRun());
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
  const auto history = history::ReadHistory(histories_);
  ASSERT_TRUE(history.ok()) << history.status();
  soak::ExpectTrue(*history);
  std::map<absl::string_view, history::Kind> kinds;
  int64_t reads = 0;
  int64_t writes = 0;
  for (const history::HistoryEvent& event : history->events) {
    if (event.what == history::What::kAcquire) kinds[event.call] = event.kind;
    if (event.what != history::What::kOk) continue;
    ++(kinds[event.call] == history::Kind::kRead ? reads : writes);
  }
  EXPECT_GT(reads, 0);
  EXPECT_GT(writes, 0);
  std::printf("%lld reads and %lld writes by %zu processes\n", static_cast<long long>(reads),
              static_cast<long long>(writes), histories_.size());
}

}  // namespace
}  // namespace redlatch
