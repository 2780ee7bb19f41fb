#ifndef REDLATCH_SRC_DEMO_WORKER_H_
#define REDLATCH_SRC_DEMO_WORKER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace redlatch::demo {

inline constexpr int kWorkers = 5;
inline constexpr absl::Duration kLease = absl::Seconds(2);  // short, so that the demo is

enum class Doing { kStarting, kResting, kWaiting, kHolding, kDallying };
enum class Order { kGo, kDallyBeforeWrite, kDallyAfterWrite, kEnd };

// Shared memory through which the demo and one worker process communicate.
struct Seat {
  std::atomic<Order> order{Order::kGo};
  std::atomic<Doing> doing{Doing::kStarting};
  std::atomic<uint64_t> token{0};   // of its latest hold
  std::atomic<int64_t> count{0};    // that it read or wrote last
  std::atomic<int64_t> added{0};    // how many additions it has reported
  std::atomic<int64_t> refused{0};  // how many of its writes the store refused
};
using Board = std::array<Seat, kWorkers>;

// The board in the file `path`, which is made if it is not there. It stays until the process ends.
Board& MapBoard(const std::string& path);

// What worker process `number` does; returns its exit code. Its standard output is shown.
int RunWorker(int number, const std::string& url, const std::string& lock,
              const std::string& directory);

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_WORKER_H_
