// What the command prints, and how it exits.
#ifndef REDLATCH_SRC_CLI_TERM_OUTPUT_H_
#define REDLATCH_SRC_CLI_TERM_OUTPUT_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/utf8.h"

namespace redlatch::cli {

// What `redlatch` itself exits with, beside the code of a command that it ran. Those of 125 and
// above mean what they do with env(1), timeout(1) and shells.
inline constexpr int kNo = 1;             // nobody uses that name, or the user said no
inline constexpr int kNeedsChange = 1;    // the server, says the doctor
inline constexpr int kBusy = 120;         // somebody else had the lock for as long as --wait
inline constexpr int kUnreachable = 121;  // the server
inline constexpr int kLost = 122;         // the lock, while the command ran
inline constexpr int kRefused = 123;      // by the server or the library: it won't do it
inline constexpr int kFailure = 125;  // of redlatch itself, or what it was asked for makes no sense
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  // plus the signal's number

// One line on stderr, in one piece.
void Complain(std::initializer_list<std::string_view> parts);

// Says on stderr why redlatch, the library or the server won't do it, and how to mend that. The
// exit code; kNo for kNotFound.
int Refuse(const absl::Status& why);

// For a terminal. Within $'…' in a shell, the result is the name again.
using base::Printable;

// How many columns it takes, where it is printable; characters of two columns count as one.
size_t Columns(std::string_view printable);
// Cut to so many columns, with an ellipsis for what is left out.
std::string Cut(std::string_view printable, size_t columns);
// With spaces behind it, up to so many columns.
std::string Padded(std::string_view printable, size_t columns);

inline constexpr size_t kPageWidth = 80;
// The words in lines of so many columns, each of which begins with `indent` spaces.
std::string Wrapped(std::string_view printable, size_t indent, size_t width = kPageWidth);

// "0.3s", "21.4s", "3m12s", "2h05m", "3d04h"; "-" for an infinite one.
std::string Brief(absl::Duration time);

// "1 permit", "2 permits".
std::string Counted(int64_t count, std::string_view noun);

// A string of JSON, quotes included; of bytes that are not UTF-8 each one is U+FFFD.
std::string JsonText(std::string_view bytes);

std::string JsonList(const std::vector<std::string>& values);  // of JSON

// One line of JSON.
class JsonObject {
 public:
  // Of bytes that are not UTF-8 each one is U+FFFD, and `key`_base64 tells them all.
  void Text(std::string_view key, std::string_view bytes);
  void Number(std::string_view key, int64_t number) { Json(key, std::to_string(number)); }
  void Bool(std::string_view key, bool value) { Json(key, value ? "true" : "false"); }
  void Null(std::string_view key) { Json(key, "null"); }
  void Json(std::string_view key, std::string_view json);
  // Milliseconds; null where it is infinite.
  void Millis(std::string_view key, absl::Duration time);

  std::string Finish() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

// Three digits at most: "54 µs", "1.25 ms", "2 s", "3 min", "5 h", "2 days".
std::string ShortTime(absl::Duration time);
// "895 KiB".
std::string ShortSize(int64_t bytes);

struct Spread {
  absl::Duration p50;
  absl::Duration p99;
  absl::Duration worst;
};
// REQUIRES: there is at least one.
Spread SpreadOf(std::vector<absl::Duration> times);

// What a lease should not be below where a round trip took so long at worst: it is renewed each
// third, and has to outlive what a short measurement did not see.
absl::Duration ShortestLease(absl::Duration worst);

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

// Where the caller has closed standard streams, ours must not take their numbers. A program that is
// executed finds them closed.
void OccupyStandardDescriptors();

// For a process beside the command, which has its own of these: a pipe that waits for its last
// writer, or a lock file, must not wait for that process. Standard error stays.
void LetGoOfDescriptorsBut(std::vector<int> kept);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_OUTPUT_H_
