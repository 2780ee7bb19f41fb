// A process that uses every kind of lock on a cluster until its parent says that it is over.
#ifndef REDLATCH_TESTS_FAULT_API_CLUSTER_LOAD_H_
#define REDLATCH_TESTS_FAULT_API_CLUSTER_LOAD_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/observer.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/await.h"
#include "tests/support/history_check/history_event.h"
#include "tests/support/history_writer.h"
#include "tests/support/subprocess.h"

namespace redlatch::load {

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr int kShared = 6;  // names of each kind that all processes use
constexpr int kOwn = 200;   // names of simple locks that one process uses
constexpr int kHeld = 20;   // and that it holds all the time
constexpr absl::Duration kHeldLease = absl::Seconds(2);
constexpr int kCapacity = 3;
constexpr size_t kLatches = 4;
constexpr int64_t kArrivals = 1'000'000;  // more than there will be

inline std::string SemaphoreName(int i) { return absl::StrCat("load:semaphore:", i); }
inline std::string LatchName(size_t i) { return absl::StrCat("load:latch:", i); }

class LoadProcess {
 public:
  LoadProcess(const std::string& url, support::HistoryWriter& history, int process, int acks)
      : history_(history), process_(process), options_{.replica_acks = acks} {
    const absl::StatusOr<Client> client =
        Client::Connect(url, {.observer = std::make_shared<Losses>(*this)});
    EXPECT_TRUE(client.ok()) << client.status();
    for (int i = 0; i < kShared; ++i) {
      simple_.push_back(
          std::make_unique<SimpleLock>(*client, absl::StrCat("load:simple:", i), options_));
      read_write_.push_back(std::make_unique<ReentrantReadWriteLock>(
          *client, absl::StrCat("load:read_write:", i), options_));
      semaphores_.push_back(std::make_unique<Semaphore>(*client, SemaphoreName(i), kCapacity));
      history_.Note(
          {.what = history::What::kSemaphore, .objects = SemaphoreName(i), .amount = kCapacity});
    }
    for (size_t i = 0; i < kLatches; ++i) {
      latches_.push_back(std::make_unique<CountDownLatch>(*client, LatchName(i), kArrivals));
      history_.Note({.what = history::What::kLatch, .objects = LatchName(i), .amount = kArrivals});
    }
    for (int i = 0; i < kHeld; ++i) {
      SimpleLock lock(*client, absl::StrCat("load:held:", process * kHeld + i),
                      {.lease = kHeldLease, .replica_acks = acks});
      absl::StatusOr<Lease> lease = lock.Acquire({.wait = kPatience});
      EXPECT_TRUE(lease.ok()) << lease.status();
      if (lease.ok()) held_.push_back(*std::move(lease));
    }
    threads_.emplace_back([this] { Work(0, &LoadProcess::Simple); });
    threads_.emplace_back([this, client = *client] {
      Work(1,
           [&](LoadProcess& self, int round, soak::Dice& dice) { self.Own(client, round, dice); });
    });
    threads_.emplace_back([this] { Work(2, &LoadProcess::ReadWrite); });
    threads_.emplace_back([this] { Work(3, &LoadProcess::Permits); });
    threads_.emplace_back([this] { Work(4, &LoadProcess::Count); });
  }
  ~LoadProcess() { Stop(); }
  LoadProcess(const LoadProcess&) = delete;
  LoadProcess& operator=(const LoadProcess&) = delete;

  // What is held all the time was never lost.
  void ReleaseHeld() {
    for (Lease& lease : held_) {
      const absl::Status released = lease.Release();
      EXPECT_TRUE(released.ok()) << released;
    }
    held_.clear();
  }
  // From here on a server may die: releases may be lost, and, if replicas are to confirm, holds
  // may be refused.
  void MayLose() {
    ReleaseHeld();
    may_lose_ = true;
  }

  // What is taken from here on is kept until it is lost, or this is over.
  void Keep(bool keep) { keep_ = keep; }

  // Every thread has used every shared name of its kind.
  bool AwaitAll() const {
    std::array<int, kThreads> until;
    for (size_t i = 0; i < kThreads; ++i) until[i] = rounds_[i] + kShared + 1;
    return support::Await(
        [&] {
          for (size_t i = 0; i < kThreads; ++i) {
            if (rounds_[i] < until[i]) return false;
          }
          return true;
        },
        2 * kPatience);
  }

  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  // What became of acquisitions and releases.
  std::string Words() const { return absl::StrCat(refused_.load(), " ", unreleased_.load()); }

  void AwaitLatches() {
    for (const auto& latch : latches_) {
      const uint32_t id = history_.Begin({.what = history::What::kWait, .objects = latch->name()});
      const absl::Status opened = latch->Wait({.wait = kPatience});
      EXPECT_TRUE(opened.ok()) << latch->name() << ": " << opened;
      history_.Note(id, {.what = opened.ok() ? history::What::kOk : history::What::kUnknown});
    }
  }

 private:
  static constexpr size_t kThreads = 5;

  class Losses : public Observer {
   public:
    explicit Losses(const LoadProcess& process) : process_(process) {}
    void OnLost(const LostLease& lost) override {
      EXPECT_TRUE(process_.may_lose_) << lost.lock << " was lost: " << lost.reason;
    }

   private:
    const LoadProcess& process_;
  };

  template <class Round>
  void Work(size_t thread, const Round& round) {
    soak::Dice dice(static_cast<uint64_t>(process_) * kThreads + thread);
    for (int i = process_; !stop_ && !history_.full(); ++i) {
      std::invoke(round, *this, i, dice);
      ++rounds_[thread];
      soak::Pass(dice.Between(absl::ZeroDuration(), absl::Milliseconds(8)));
    }
  }

  void Simple(int round, soak::Dice& dice) {
    const int i = round % kShared;
    Take(simple_[static_cast<size_t>(i)]->name(), 0, history::Kind::kLock, dice,
         [&] { return simple_[static_cast<size_t>(i)]->Acquire({.wait = kPatience}); });
  }
  void Own(const Client& client, int round, soak::Dice& dice) {
    const int i = process_ * kOwn + round % kOwn;
    SimpleLock lock(client, absl::StrCat("load:own:", i), options_);
    Take(lock.name(), 1, history::Kind::kLock, dice,
         [&] { return lock.Acquire({.wait = kPatience}); });
  }
  void ReadWrite(int round, soak::Dice& dice) {
    const int i = round % kShared;
    ReentrantReadWriteLock& lock = *read_write_[static_cast<size_t>(i)];
    const bool reads = !dice.OneIn(3);
    Take(lock.name(), 2, reads ? history::Kind::kRead : history::Kind::kWrite, dice, [&] {
      return reads ? lock.AcquireRead({.wait = kPatience}) : lock.AcquireWrite({.wait = kPatience});
    });
  }
  void Permits(int round, soak::Dice& dice) {
    const int i = round % kShared;
    const int permits = 1 + dice.Below(kCapacity);
    Take(
        SemaphoreName(i), 3, history::Kind::kPermits, dice,
        [&] { return semaphores_[static_cast<size_t>(i)]->Acquire(permits, {.wait = kPatience}); },
        permits);
  }
  // Two processes count by the same ids.
  void Count(int round, soak::Dice&) {
    const size_t i = static_cast<size_t>(round) % kLatches;
    const std::string key = absl::StrCat(process_ / 2, ":", counted_[i]);
    const uint32_t id = history_.Begin(
        {.what = history::What::kCount, .objects = latches_[i]->name(), .owner = key});
    const absl::Status counted = latches_[i]->CountDown(1, key);
    EXPECT_TRUE(counted.ok()) << latches_[i]->name() << ": " << counted;
    history_.Note(id, {.what = counted.ok() ? history::What::kOk : history::What::kUnknown});
    if (counted.ok()) ++counted_[i];
  }

  template <class Acquire>
  void Take(const std::string& name, int thread, history::Kind kind, soak::Dice& dice,
            const Acquire& acquire, int permits = 1) {
    const uint32_t id = history_.Invoke(name, kind, thread, /*waits=*/true, permits);
    auto hold = acquire();
    if (!hold.ok()) {
      history_.Refused(id, IsBusy(hold.status()));
      ++refused_;
      // No replica could confirm it: there was none, or its server died meanwhile.
      const bool unconfirmed =
          may_lose_ && options_.replica_acks > 0 && absl::IsUnavailable(hold.status()) &&
          hold.status().message().find("given back") != absl::string_view::npos;
      EXPECT_TRUE(unconfirmed) << name << ": " << hold.status();
      return;
    }
    if constexpr (requires { hold->fencing_token(); }) {
      history_.Held(id, hold->fencing_token().value());
    } else {
      history_.Held(id, 0);
    }
    Sample(id, *hold);
    soak::Pass(dice.Between(absl::ZeroDuration(), absl::Milliseconds(2)));
    Sample(id, *hold);
    while (keep_ && hold->valid()) {
      soak::Pass(absl::Milliseconds(1));
      Sample(id, *hold);
    }
    history_.ReleaseInvoked(id);
    const absl::Status released = hold->Release();
    if (released.ok()) return history_.Released(id);
    ++unreleased_;
    EXPECT_TRUE(may_lose_) << name << " is not released: " << released;
  }
  template <class Hold>
  void Sample(uint32_t id, const Hold& hold) {
    const base::Instant asked = base::Now();
    history_.Remaining(id, asked, hold.remaining());
  }

  support::HistoryWriter& history_;
  const int process_;
  const LockOptions options_;
  std::vector<std::unique_ptr<SimpleLock>> simple_;
  std::vector<std::unique_ptr<ReentrantReadWriteLock>> read_write_;
  std::vector<std::unique_ptr<Semaphore>> semaphores_;
  std::vector<std::unique_ptr<CountDownLatch>> latches_;
  std::vector<Lease> held_;
  std::atomic<bool> may_lose_{false};
  std::atomic<bool> keep_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int> refused_{0};
  std::atomic<int> unreleased_{0};
  std::array<std::atomic<int>, kThreads> rounds_{};
  std::array<int64_t, kLatches> counted_{};
  std::vector<std::thread> threads_;
};

// Of a REDLATCH_CHILD(LoadWorker), with the URL, the path of its history, its number, and how many
// replicas are to confirm. It does as its parent says: "lose", "keep", "go on", "all", "stop".
inline int RunLoad(support::LinePipe& parent, const std::vector<std::string>& args) {
  const int number = std::stoi(args.at(2));
  support::HistoryWriter history(args.at(1), number);
  LoadProcess process(args.at(0), history, number, std::stoi(args.at(3)));
  for (;;) {
    const std::string line = parent.ReadLine(absl::Hours(1)).value_or("stop");
    if (line == "stop") break;
    if (line == "lose") process.MayLose();
    if (line == "keep") process.Keep(true);
    if (line == "go on") process.Keep(false);
    if (line == "all") parent.WriteLine(process.AwaitAll() ? "all" : "not all");
  }
  process.Stop();
  parent.WriteLine(process.Words());
  process.AwaitLatches();
  return 0;
}

}  // namespace redlatch::load

#endif  // REDLATCH_TESTS_FAULT_API_CLUSTER_LOAD_H_
