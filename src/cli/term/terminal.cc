#include "src/cli/term/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

constexpr size_t kNarrowest = 30;

}  // namespace

size_t TerminalWidth(int descriptor) {
  winsize size = {};
  if (isatty(descriptor) == 0) return 0;
  const bool known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

size_t PageWidth() {
  const size_t terminal = TerminalWidth();
  return terminal == 0 ? kPageWidth : std::clamp(terminal, kNarrowest, kPageWidth);
}

TerminalLine::TerminalLine(pid_t job) : has_terminal_(isatty(STDERR_FILENO) != 0), job_(job) {}

// A terminal that is not this session's has no foreground that it could tell.
bool TerminalLine::OwnsTerminal() const {
  const pid_t foreground = tcgetpgrp(STDERR_FILENO);
  return foreground < 0 || foreground == job_;
}

std::string TerminalLine::Erasure() {
  if (columns_ == 0) return "";
  // By the width that it has now: terminals wrap anew what they show.
  const size_t rows = (columns_ - 1) / std::max<size_t>(1, TerminalWidth(STDERR_FILENO));
  columns_ = 0;
  return absl::StrCat(rows > 0 ? absl::StrCat("\x1b[", rows, "A") : "", "\r\x1b[J");
}

void TerminalLine::Show(std::string_view text) {
  if (!has_terminal_) return;
  if (!OwnsTerminal()) {
    columns_ = 0;  // others have written below it since
    return;
  }
  const std::string line = absl::StrCat(Erasure(), "\r", std::string(text));
  columns_ = Columns(text);
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

void TerminalLine::Clear() {
  if (columns_ == 0 || !OwnsTerminal()) return;
  const std::string erasure = Erasure();
  (void)!write(STDERR_FILENO, erasure.data(), erasure.size());
}

void Progress::Show(std::string_view what, int64_t count) {
  if (base::Now() < next_) return;
  next_ = base::Now() + kEvery;
  line_.Show(absl::StrCat(std::string(what), ": ", count));
}

}  // namespace redlatch::cli
