#ifndef REDLATCH_SRC_DEMO_WORKER_H_
#define REDLATCH_SRC_DEMO_WORKER_H_

#include <array>
#include <climits>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace redlatch::demo {

// How long a hold outlives its process. Short, so that the demo is.
inline constexpr absl::Duration kLease = absl::Seconds(2);
// No process of the demo lives longer, whatever happens.
inline constexpr absl::Duration kLongestRun = absl::Seconds(60);

// What a worker is told, one byte each, on its standard input. At the input's end it finishes.
enum class Order : char {
  kDallyBeforeWrite = 'b',  // with your next hold: wait for kGo before you write
  kDallyAfterWrite = 'a',   // with your next hold: wait for kGo after you wrote, before you say so
  kGo = 'g',
};

// What a worker tells on its standard output: these bytes, in one write each.
struct Report {
  enum class Event : char {
    kStarted = 's',  // text: its host
    kWaits = 'w',    // for the lock
    kHolds = 'h',    // token, count: what it has read
    kDallies = 'd',  // token, count: what it has read
    kWrote = 'o',    // token, count
    kRefused = 'r',  // token, count, text: what the store said
    kLost = 'l',     // token, text: what redlatch said
    kRests = 'e',    // without the lock; text: where RunLocked() failed, why
    kFailed = 'f',   // text: why
  };
  int worker = 0;
  Event event = Event::kStarted;
  uint64_t token = 0;
  int64_t count = 0;
  std::array<char, 256> text = {};  // of one line, with a NUL at its end
};
static_assert(sizeof(Report) <= PIPE_BUF, "so that those of several workers do not mix");

struct WorkerTask {
  int worker = 0;
  std::string url;
  std::string lock;
  std::string counter_path;
};

// All that a worker process does; its exit code.
int RunWorker(const WorkerTask& task);

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_WORKER_H_
