// history_check FILE...: checks the history that the files contain together. See history_check.md.
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_check/history_event.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: history_check FILE...\n", stderr);
    return 2;
  }
  const absl::StatusOr<redlatch::history::History> history =
      redlatch::history::ReadHistory({argv + 1, argv + argc});
  if (!history.ok()) {
    std::fprintf(stderr, "%s\n", std::string(history.status().message()).c_str());
    return 2;
  }
  const redlatch::history::HistoryChecker checker = redlatch::history::Judge(*history);
  for (const redlatch::history::Violation& violation : checker.violations()) {
    std::printf("%s\n", redlatch::history::Words(violation, *history).c_str());
  }
  std::printf("%zu events, %zu violations\n", history->events.size(), checker.violations().size());
  return checker.violations().empty() ? 0 : 1;
}
