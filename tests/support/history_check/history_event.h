// The events of a history of locks, and the lines of text that represent them: see
// history_check.md.
#ifndef REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_EVENT_H_
#define REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace redlatch::history {

enum class What : uint8_t {
  kSemaphore,  // declares an object
  kAcquire,
  kForce,  // begin a call
  kOk,
  kFailed,
  kUnknown,  // end a call
  kUntil,
  kRelease,
  kReleased,
  kLost,  // report more about an acquisition
  kCalm,
  kStorm,  // are observations of the whole
};

enum class Kind : uint8_t { kLock, kReentrant, kWrite, kRead, kPermits };

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The strings are only valid during the call that takes the event; it copies those that it keeps.
struct HistoryEvent {
  int64_t time = 0;
  absl::string_view call = "-";
  What what = What::kAcquire;
  absl::string_view object = {};
  Kind kind = Kind::kLock;
  absl::string_view owner = {};
  bool waits = false;
  uint64_t token = 0;
  int64_t until = kNever;
  int64_t amount = -1;  // permits or a bound; -1 stands for 1
  uint64_t line = 0;    // 0: one more than that of the previous event
};

std::string ToLine(const HistoryEvent& event);
absl::StatusOr<HistoryEvent> ParseLine(absl::string_view line);

// The events of several files, sorted by time. An incomplete last line is left out: its process was
// killed while it wrote.
struct History {
  struct Line {
    size_t file;
    size_t number;
    absl::string_view text;
  };
  // "FILE:NUMBER: TEXT" of an event's `line`.
  std::string Words(uint64_t line) const;

  std::vector<HistoryEvent> events;
  std::vector<Line> lines;
  std::vector<std::string> files;
  std::deque<std::string> texts;  // the contents of the files; all string_views point into them
};
absl::StatusOr<History> ReadHistory(std::vector<std::string> files);

}  // namespace redlatch::history

#endif  // REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_EVENT_H_
