// What many processes did with locks, and when: written while they do it, read after they have
// ended, however they ended.
#ifndef REDLATCH_TESTS_SUPPORT_LOCK_HISTORY_H_
#define REDLATCH_TESTS_SUPPORT_LOCK_HISTORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::support {

// One acquisition, from its call to the end of what it brought. All times are of one clock, which
// all processes of this machine share.
struct Acquisition {
  enum class Outcome : uint8_t {
    kUnknown,  // the process ended before the call did: it may have been executed
    kHeld,
    kRefused,  // busy, unreachable or stopped: nothing is held for certain
  };
  int lock = 0;
  int64_t owner = 0;    // two of equal owner may hold at the same time
  bool waits = false;   // for as long as it takes
  bool shared = false;  // by a reader: two of them may hold at the same time
  int permits = 1;      // of a semaphore
  Outcome outcome = Outcome::kUnknown;
  base::Instant invoked;
  base::Instant returned = base::Instant::Infinite();
  uint64_t token = 0;
  // Until then the hold was certainly its owner's: to the earliest of the release's call, the loss
  // as it was noticed, and the local deadline as it was last read.
  base::Instant certain_until;
};

// A forced release, from its call to its return.
struct Forced {
  int lock = 0;
  base::Instant invoked;
  base::Instant returned = base::Instant::Infinite();
};

struct History {
  std::vector<Acquisition> acquisitions;
  std::vector<Forced> forced;
};

// Writes one process's part of the history to a file that is mapped into memory: what was written
// is there after a SIGKILL. Thread-safe. Where the file is full the rest is not written, and
// acquisitions must not begin: see full().
class HistoryWriter {
 public:
  // `process` tells the owners of different processes apart.
  HistoryWriter(const std::string& path, int process);
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  bool full() const;

  // The number of a new acquisition, for what follows. `owner`: of this process, from 0 to 999; or,
  // where it is negative, one that other processes may be as well.
  uint32_t Invoke(int lock, int owner, bool waits, bool shared = false, int permits = 1);
  void Refused(uint32_t acquisition);
  void Held(uint32_t acquisition, uint64_t token);
  // What Hold::remaining() answered to a question that began at `asked`.
  void Remaining(uint32_t acquisition, base::Instant asked, absl::Duration remaining);
  void Lost(uint32_t acquisition);
  void ReleaseInvoked(uint32_t acquisition);
  uint64_t TokenOf(uint32_t acquisition) const;

 private:
  struct Slot;
  friend std::vector<Acquisition> ReadHistory(const std::string& path);

  const int process_;
  Slot* slots_;
  std::atomic<uint32_t> used_{0};
};

// What a process has written, whether it lives or not.
std::vector<Acquisition> ReadHistory(const std::string& path);

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_LOCK_HISTORY_H_
