#ifndef REDLATCH_SRC_CLI_TERMINAL_H_
#define REDLATCH_SRC_CLI_TERMINAL_H_

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string_view>

#include "src/base/clock.h"

namespace redlatch::cli {

// Of standard output; 0 where it is no terminal.
inline size_t TerminalWidth() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0) return 0;
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// A line on the terminal that shows how far a long work is; gone with this object. Nothing is
// written where stderr is no terminal, nor in the first moments.
class Progress {
 public:
  Progress() : terminal_(isatty(STDERR_FILENO) != 0), next_(base::Now() + kFirst) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(std::string_view what, int64_t count) {
    if (!terminal_ || base::Now() < next_) return;
    next_ = base::Now() + kEvery;
    shown_ = true;
    std::fprintf(stderr, "\r\x1b[K%.*s: %lld", static_cast<int>(what.size()), what.data(),
                 static_cast<long long>(count));
  }
  void Clear() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  static constexpr absl::Duration kFirst = absl::Milliseconds(500);
  static constexpr absl::Duration kEvery = absl::Milliseconds(200);

  const bool terminal_;
  base::Instant next_;
  bool shown_ = false;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERMINAL_H_
