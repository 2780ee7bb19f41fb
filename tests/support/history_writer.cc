#include "tests/support/history_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/support/fatal.h"

namespace redlatch::support {

using history::What;

HistoryWriter::HistoryWriter(const std::string& path, int process)
    : process_(process),
      file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  CheckErrno(file_.get() >= 0, path.c_str());
}

void HistoryWriter::Note(history::HistoryEvent event) {
  if (event.time == 0) event.time = base::Now().nanos();
  const std::string line = history::ToLine(event) + "\n";
  CheckErrno(write(file_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()),
             "write");
}

void HistoryWriter::EndCallsOf(const std::string& path) {
  const absl::StatusOr<history::History> history = history::ReadHistory({path});
  if (!history.ok()) Fatal(history.status().ToString());
  std::set<absl::string_view> open;
  for (const history::HistoryEvent& event : history->events) {
    if (event.what == What::kAcquire) open.insert(event.call);
    if (event.what == What::kOk || event.what == What::kFailed || event.what == What::kUnknown) {
      open.erase(event.call);
    }
  }
  for (const absl::string_view call : open) Note({.call = call, .what = What::kUnknown});
}

uint32_t HistoryWriter::Begin(history::HistoryEvent event) {
  const uint32_t call = used_++;
  Note(call, event);
  return call;
}

void HistoryWriter::Note(uint32_t call, history::HistoryEvent event) {
  const std::string name = absl::StrCat(process_, ".", call);
  event.call = name;
  Note(event);
}

uint32_t HistoryWriter::Invoke(const std::string& object, history::Kind kind, int owner, bool waits,
                               int permits) {
  const std::string name =
      owner < 0 ? absl::StrCat("owner", -owner) : absl::StrCat("process", process_, ".", owner);
  return Begin({.object = object,
                .kind = kind,
                .owner = name,
                .waits = waits,
                .amount = kind == history::Kind::kPermits ? permits : -1});
}

void HistoryWriter::Refused(uint32_t call, bool certainly) {
  Note(call, {.what = certainly ? What::kFailed : What::kUnknown});
}

void HistoryWriter::Held(uint32_t call, uint64_t token) {
  Note(call, {.what = What::kOk, .token = token, .until = 0});
}

void HistoryWriter::Remaining(uint32_t call, base::Instant asked, absl::Duration remaining) {
  if (remaining <= absl::ZeroDuration()) return Lost(call);
  Note(call, {.what = What::kUntil, .until = (asked + remaining).nanos()});
}

}  // namespace redlatch::support
