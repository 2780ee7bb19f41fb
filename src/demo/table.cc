#include "src/demo/table.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace redlatch::demo {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(1);

std::string_view Name(Worker::State state) {
  switch (state) {
    case Worker::State::kStarting:
      return "starting";
    case Worker::State::kRests:
      return "resting";
    case Worker::State::kWaits:
      return "waiting for the lock";
    case Worker::State::kHolds:
    case Worker::State::kDallies:
      return "HOLDS THE LOCK";
    case Worker::State::kFrozen:
      return "frozen (SIGSTOP)";
    case Worker::State::kKilled:
      return "killed (SIGKILL)";
    case Worker::State::kDone:
      return "done";
    case Worker::State::kFailed:
      return "failed";
  }
  return "";
}

// Null if the server does not know which process it is.
const Worker* HolderOf(const Table::Sight& sight) {
  for (const Worker& worker : *sight.workers) {
    if (worker.was == sight.lock->holders.front().process.pid) return &worker;
  }
  return nullptr;
}

std::string HolderText(const Table::Sight& sight) {
  if (sight.lock == nullptr) return "unknown";
  if (sight.lock->holders.empty()) return "nobody";
  const Worker* const holder = HolderOf(sight);
  if (holder == nullptr) return "a worker";
  const std::string_view fate = holder->state == Worker::State::kKilled   ? " (killed)"
                                : holder->state == Worker::State::kFrozen ? " (frozen)"
                                                                          : "";
  return absl::StrFormat("worker %d, pid %d on %s%s", holder->number, holder->was, holder->host,
                         std::string(fate));
}

}  // namespace

Table::Table() : terminal_(isatty(STDOUT_FILENO) == 1) {}

void Table::Erase() {
  if (height_ > 0) std::printf("\x1b[%zuA\r\x1b[J", height_);
  height_ = 0;
}

void Table::Print(std::string_view text) {
  Erase();
  std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(stdout);
}

void Table::Event(absl::Duration elapsed, std::string_view text) {
  Print(absl::StrFormat("%4.1f s  %s", absl::ToDoubleSeconds(elapsed), std::string(text)));
}

void Table::Show(const Sight& sight) {
  if (terminal_) {
    Erase();
    Draw(sight);
  } else if (next_line_ <= sight.elapsed) {
    next_line_ = sight.elapsed + kLineInterval;
    Event(sight.elapsed, absl::StrFormat("count %d; lock: %s; token %u; %d waiting", sight.count,
                                         HolderText(sight),
                                         sight.lock == nullptr ? 0 : sight.lock->last_token.value(),
                                         sight.lock == nullptr ? 0 : sight.lock->waiting));
  }
}

void Table::Draw(const Sight& sight) {
  std::string text = "\n";
  absl::StrAppendFormat(&text, "    count     %d\n", sight.count);
  absl::StrAppendFormat(&text, "    the lock  %s\n", HolderText(sight));
  if (sight.lock != nullptr) {
    absl::StrAppendFormat(&text, "    token     %u\n", sight.lock->last_token.value());
    if (sight.lock->holders.empty()) {
      absl::StrAppend(&text, "    lease     -\n");
    } else {
      absl::StrAppendFormat(&text, "    lease     expires in %.1f s unless renewed\n",
                            absl::ToDoubleSeconds(sight.lock->holders.front().remaining));
    }
    absl::StrAppendFormat(&text, "    waiting   %d\n", sight.lock->waiting);
  }
  absl::StrAppend(&text, "\n    worker      pid  additions\n");
  for (const Worker& worker : *sight.workers) {
    absl::StrAppendFormat(&text, "    %6d %8d %10d  %s\n", worker.number, worker.was, worker.told,
                          std::string(Name(worker.state)));
  }
  for (const char each : text) height_ += each == '\n' ? 1 : 0;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace redlatch::demo
