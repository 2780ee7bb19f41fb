// Writes what a process does with locks, in the format of history_check/history_check.md.
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

// All events that were written survive a SIGKILL. Thread-safe. Times are in ns.
class HistoryWriter {
 public:
  // `process` distinguishes the calls and the owners of different processes.
  HistoryWriter(const std::string& path, int process);

  // If true, no further acquisition may begin: a larger file would take too long to check.
  bool full() const { return used_ >= kMostCalls; }

  // Writes an event, with the present time unless it has a time.
  void Note(history::HistoryEvent event);
  // Notes an unknown outcome for each open call in the file of a process that was killed.
  void EndCallsOf(const std::string& path);
  // Begins a call, and returns its number.
  uint32_t Begin(history::HistoryEvent event);
  void Note(uint32_t call, history::HistoryEvent event);

  // `owner`: a thread of this process; or, if it is negative, an owner that several processes
  // share.
  uint32_t Invoke(const std::string& object, history::Kind kind, int owner, bool waits,
                  int permits = 1);
  // Unless `certainly`, the outcome is unknown.
  void Refused(uint32_t call, bool certainly);
  // The hold becomes certain when Remaining() reports a deadline.
  void Held(uint32_t call, uint64_t token);
  // The value that Hold::remaining() returned; it was called at `asked`.
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
