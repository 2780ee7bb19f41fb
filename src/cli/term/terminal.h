// What `redlatch` shows on a terminal only.
#ifndef REDLATCH_SRC_CLI_TERM_TERMINAL_H_
#define REDLATCH_SRC_CLI_TERM_TERMINAL_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::cli {

// The columns of the terminal that it is; 0 if it is none.
size_t TerminalWidth(int descriptor = STDOUT_FILENO);
// The width at which text for standard output is wrapped.
size_t PageWidth();

// A text on the terminal that stderr is, which replaces the one before, however many rows that
// took, and goes with this object. It is shown only while the job owns the terminal: neither in the
// background, nor while ^Z has stopped it. One thread at a time.
class TerminalLine {
 public:
  // `job`: the process group that the user sees.
  explicit TerminalLine(pid_t job = getpgrp());
  ~TerminalLine() { Clear(); }
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  bool has_terminal() const { return has_terminal_; }
  // `text` is one line, and printable.
  void Show(std::string_view text);
  void Clear();

 private:
  bool OwnsTerminal() const;
  // What takes away what is shown.
  std::string Erasure();

  const bool has_terminal_;
  const pid_t job_;
  size_t columns_ = 0;  // of what is shown
};

// How far a long work is. Nothing is written in the first moments.
class Progress {
 public:
  Progress() : next_(base::Now() + kFirst) {}

  void Show(std::string_view what, int64_t count);
  void Clear() { line_.Clear(); }

 private:
  static constexpr absl::Duration kFirst = absl::Milliseconds(500);
  static constexpr absl::Duration kEvery = absl::Milliseconds(200);

  TerminalLine line_;
  base::Instant next_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_TERMINAL_H_
