// The life of one process of a soak: its threads work until their parent says that it is over.
#ifndef REDLATCH_TESTS_FAULT_SOAK_CHILD_H_
#define REDLATCH_TESTS_FAULT_SOAK_CHILD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/history_writer.h"
#include "tests/support/subprocess.h"

namespace redlatch::soak {

// What became of a process's calls.
struct Tally {
  std::atomic<int64_t> held{0};
  std::atomic<int64_t> busy{0};
  std::atomic<int64_t> unreachable{0};
  std::atomic<int64_t> lost{0};
};

// What one thread of a process is given.
struct Task {
  const Client& client;
  support::HistoryWriter& history;
  Tally& tally;
  int thread;
  uint64_t seed;
  absl::Duration longest_lease;
};

class StrictObserver : public Observer {
 public:
  explicit StrictObserver(Tally& tally) : tally_(tally) {}
  void OnLost(const LostLease&) override { ++tally_.lost; }
  void OnMisuse(std::string_view lock, std::string_view what) override {
    ADD_FAILURE() << lock << ": " << what;
  }

 private:
  Tally& tally_;
};

// Of a REDLATCH_CHILD that a Crew spawns; its last words are what became of its
// calls.
template <class Worker>
int RunWorkers(support::LinePipe& parent, const std::vector<std::string>& args, int threads = 2) {
  const std::string& url = args.at(0);
  support::HistoryWriter history(args.at(1), std::stoi(args.at(2)));
  Dice dice(std::stoull(args.at(3)));
  absl::Duration longest_lease;
  EXPECT_TRUE(absl::ParseDuration(args.at(4), &longest_lease));

  Tally tally;
  std::atomic<bool> stopping{false};
  {
    const absl::StatusOr<Client> client = Client::Connect(
        url,
        {.connect = ConnectPolicy::kLazy, .observer = std::make_shared<StrictObserver>(tally)});
    if (!client.ok()) return 2;
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&, i, seed = dice.Seed()] {
        Worker({*client, history, tally, i, seed, longest_lease}).Work(stopping);
      });
    }
    (void)parent.ReadLine(absl::Hours(1));
    stopping = true;
    for (std::thread& thread : running) thread.join();
  }
  parent.WriteLine(absl::StrCat(tally.held.load(), " held, ", tally.busy.load(), " busy, ",
                                tally.unreachable.load(), " unreachable, ", tally.lost.load(),
                                " lost"));
  return 0;
}

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_CHILD_H_
