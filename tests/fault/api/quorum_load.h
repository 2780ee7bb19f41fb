// A process that uses RedLocks until its parent says that it is over.
#ifndef REDLATCH_TESTS_FAULT_API_QUORUM_LOAD_H_
#define REDLATCH_TESTS_FAULT_API_QUORUM_LOAD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/history_check/history_event.h"
#include "tests/support/history_writer.h"
#include "tests/support/subprocess.h"

namespace redlatch::quorum_load {

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr int kLocks = 3;  // that all processes use
constexpr absl::Duration kLease = absl::Milliseconds(300);
constexpr absl::Duration kLongSection = absl::Milliseconds(400);  // needs renewals

inline std::string NameOf(int lock) { return absl::StrCat("load:", lock); }

class QuorumProcess {
 public:
  QuorumProcess(const std::string& url, support::HistoryWriter& history, int process)
      : history_(history), process_(process) {
    const absl::StatusOr<Client> client =
        Client::Connect(url, {.observer = std::make_shared<Observer>()});
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) return;
    for (int i = 0; i < kLocks; ++i) {
      const LockOptions options{.lease = kLease, .on_lost = [this](const LostLease&) { ++lost_; }};
      locks_.push_back(std::make_unique<RedLock>(*client, NameOf(i), options));
    }
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this, i] { Work(i); });
    }
  }
  ~QuorumProcess() { Stop(); }
  QuorumProcess(const QuorumProcess&) = delete;
  QuorumProcess& operator=(const QuorumProcess&) = delete;

  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  // How often it held, lost, and heard nothing of a release.
  std::string Words() const {
    return absl::StrCat(held_.load(), " ", lost_.load(), " ", unreleased_.load());
  }

 private:
  static constexpr int kThreads = 2;

  // Servers die here all the time: what that does to leases is counted, and said by the parent.
  class Observer : public redlatch::Observer {
    void OnLost(const LostLease&) override {}
    void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                         const absl::Status&) override {}
  };

  void Work(int thread) {
    soak::Dice dice(static_cast<uint64_t>(process_ * kThreads + thread));
    for (int round = process_; !stop_ && !history_.full(); ++round) {
      Take(round % kLocks, thread, dice);
      soak::Pass(dice.Between(absl::ZeroDuration(), absl::Milliseconds(20)));
    }
  }

  void Take(int number, int thread, soak::Dice& dice) {
    const uint32_t id =
        history_.Invoke(NameOf(number), history::Kind::kLock, thread, /*waits=*/true);
    absl::StatusOr<Lease> lease = locks_[static_cast<size_t>(number)]->Acquire({.wait = kPatience});
    if (!lease.ok()) {
      history_.Refused(id, /*certainly=*/false);
      ADD_FAILURE() << "lock " << number << ": " << lease.status();
      return;
    }
    ++held_;
    history_.Held(id, lease->fencing_token().value());
    const base::Instant until =
        base::Now() + (dice.OneIn(200) ? kLongSection
                                       : dice.Between(absl::ZeroDuration(), absl::Milliseconds(3)));
    do {
      Sample(id, *lease);
      soak::Pass(absl::Milliseconds(1));
      Sample(id, *lease);
    } while (base::Now() < until && lease->valid());
    history_.ReleaseInvoked(id);
    const absl::Status released = lease->Release();
    // It was lost, or too few servers have answered.
    if (released.ok()) return history_.Released(id);
    if (absl::IsAborted(released)) return;
    ++unreleased_;
    EXPECT_TRUE(absl::IsUnavailable(released)) << released;
  }

  void Sample(uint32_t id, const Lease& lease) {
    const base::Instant asked = base::Now();
    history_.Remaining(id, asked, lease.remaining());
  }

  support::HistoryWriter& history_;
  const int process_;
  std::vector<std::unique_ptr<RedLock>> locks_;
  std::atomic<bool> stop_{false};
  std::atomic<int> held_{0};
  std::atomic<int> lost_{0};
  std::atomic<int> unreleased_{0};
  std::vector<std::thread> threads_;
};

// Of a REDLATCH_CHILD, with the URL, the path of its history and its number.
inline int RunQuorumLoad(support::LinePipe& parent, const std::vector<std::string>& args) {
  const int number = std::stoi(args.at(2));
  support::HistoryWriter history(args.at(1), number);
  QuorumProcess process(args.at(0), history, number);
  (void)parent.ReadLine(absl::Hours(1));
  process.Stop();
  parent.WriteLine(process.Words());
  return 0;
}

}  // namespace redlatch::quorum_load

#endif  // REDLATCH_TESTS_FAULT_API_QUORUM_LOAD_H_
