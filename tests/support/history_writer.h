// Writes what a process does with locks, while it does it, as history_check/history_check.md says.
#ifndef REDLATCH_TESTS_SUPPORT_HISTORY_WRITER_H_
#define REDLATCH_TESTS_SUPPORT_HISTORY_WRITER_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/history_check/history_event.h"

namespace redlatch::support {

// What was written is there after a SIGKILL. Thread-safe. Times are in ns.
class HistoryWriter {
 public:
  // `process` tells the calls and the owners of different processes apart.
  HistoryWriter(const std::string& path, int process);

  // No acquisition must begin any more: the file is as large as a test can judge in a moment.
  bool full() const { return used_ >= kMostCalls; }

  // Each event is of the present moment, unless it has a time.
  void Note(history::HistoryEvent event);
  // The open calls of a process that was killed, and wrote that file, have an unknown outcome.
  void EndCallsOf(const std::string& path);
  // The number of a new call, for what follows.
  uint32_t Begin(history::HistoryEvent event);
  void Note(uint32_t call, history::HistoryEvent event);

  // `owner`: a thread of this process; or, if it is negative, an owner that other processes may be
  // as well.
  uint32_t Invoke(const std::string& object, history::Kind kind, int owner, bool waits,
                  int permits = 1);
  // If it is not certain that nothing happened, the outcome is unknown.
  void Refused(uint32_t call, bool certainly);
  // It is certain once Remaining() has been told of a deadline.
  void Held(uint32_t call, uint64_t token);
  // What Hold::remaining() answered to a question that began at `asked`.
  void Remaining(uint32_t call, base::Instant asked, absl::Duration remaining);
  void Lost(uint32_t call) { Note(call, {.what = history::What::kLost}); }
  void ReleaseInvoked(uint32_t call) { Note(call, {.what = history::What::kRelease}); }
  void Released(uint32_t call) { Note(call, {.what = history::What::kReleased}); }

 private:
  static constexpr uint32_t kMostCalls = 1U << 17;

  const int process_;
  const base::UniqueFd file_;
  std::atomic<uint32_t> used_{0};
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_HISTORY_WRITER_H_
