// The command's exit codes, and helpers for its output.
#ifndef REDLATCH_SRC_CLI_TERM_OUTPUT_H_
#define REDLATCH_SRC_CLI_TERM_OUTPUT_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/utf8.h"

namespace redlatch::cli {

// The exit codes of `redlatch` itself, beside that of a command that it ran. Codes of 125 and above
// mean the same as with env(1), timeout(1) and shells.
inline constexpr int kNo = 1;             // no client uses that name, or the user said no
inline constexpr int kNeedsChange = 1;    // the doctor found something that should be changed
inline constexpr int kBusy = 120;         // another client had the lock for as long as --wait
inline constexpr int kUnreachable = 121;  // the server could not be reached
inline constexpr int kLost = 122;         // the lock was lost while the command ran
inline constexpr int kRefused = 123;      // the server or the library refused
inline constexpr int kFailure = 125;      // a failure of redlatch itself, or wrong usage
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  // plus the signal's number

// Writes one line to stderr, in one piece. After ReportInJson() it is one of JSON, with `event`.
void Complain(std::initializer_list<std::string_view> parts, std::string_view event = "message");
// The same; returns the exit code.
int Complain(int code, std::initializer_list<std::string_view> parts,
             std::string_view event = "message");

// From now on, what this process says on stderr is one JSON object per line: event, name, and what
// belongs to the event.
void ReportInJson(std::string_view name);
bool ReportsInJson();
class JsonObject;
// Writes an event, and further members; nothing unless ReportsInJson().
void Report(std::string_view event, const std::function<void(JsonObject&)>& add);

// Writes one line to stdout. Control characters that it may still have are escaped.
void PrintLine(std::string_view line, std::string_view colour = {});

// Why redlatch, the library or the server refused, and how to fix that.
std::string TextOf(const absl::Status& why);
// The exit code for that: kNo for kNotFound.
int CodeOf(const absl::Status& why);
// Says it on stderr, and returns the exit code.
int Refuse(const absl::Status& why);

// Escapes a name for a terminal. Within $'…' a shell turns the result into the name again.
using base::Printable;

// How many columns a terminal needs for a printable text.
size_t Columns(std::string_view printable);
// Cuts the text to that many columns, with an ellipsis for the rest.
std::string Cut(std::string_view printable, size_t columns);
// Appends spaces up to that many columns.
std::string Padded(std::string_view printable, size_t columns);

// Sets when the output has colours: "auto" (on a terminal, unless $NO_COLOR is set), "always" or
// "never".
void UseColour(std::string_view when);
bool HasColours();
// The text in that colour, such as "1;31" for bold red, if the output has colours.
std::string Coloured(std::string_view colour, std::string_view text);
inline constexpr std::string_view kBold = "1";

inline constexpr size_t kPageWidth = 80;
// Breaks the text into lines of at most `width` columns, which begin with `indent` spaces.
std::string Wrapped(std::string_view printable, size_t indent, size_t width = kPageWidth);

// "0.3s", "21.4s", "3m12s", "2h05m", "3d04h"; "-" for an infinite one.
std::string Brief(absl::Duration time);

// "1 permit", "2 permits".
std::string Counted(int64_t count, std::string_view noun);

// A string of JSON with its quotes. Each byte that is not UTF-8 becomes U+FFFD.
std::string JsonText(std::string_view bytes);

// A list of what `json_of` makes of each.
template <class Each, class JsonOfEach>
std::string JsonList(const std::vector<Each>& all, const JsonOfEach& json_of) {
  std::string list;
  for (const Each& each : all) list += (list.empty() ? "" : ",") + json_of(each);
  return "[" + list + "]";
}

// One line of JSON.
class JsonObject {
 public:
  // Each byte that is not UTF-8 becomes U+FFFD; then `key`_base64 has the exact bytes, too.
  void Text(std::string_view key, std::string_view bytes);
  void Number(std::string_view key, int64_t number) { Json(key, std::to_string(number)); }
  void Bool(std::string_view key, bool value) { Json(key, value ? "true" : "false"); }
  void Null(std::string_view key) { Json(key, "null"); }
  void Json(std::string_view key, std::string_view json);
  // The time in milliseconds; null if it is infinite.
  void Millis(std::string_view key, absl::Duration time);

  std::string Finish() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

// At most three digits: "54 µs", "1.25 ms", "2 s", "3 min", "5 h", "2 days".
std::string ShortTime(absl::Duration time);
// "895 KiB".
std::string ShortSize(int64_t bytes);

struct Spread {
  absl::Duration p50;
  absl::Duration p99;
  absl::Duration worst;
};
// REQUIRES: `times` is not empty.
Spread SpreadOf(std::vector<absl::Duration> times);

// The shortest lease to recommend if `worst` was the slowest round trip. A lease is renewed after
// each third of it, and must also survive delays that a short measurement did not see.
absl::Duration ShortestLease(absl::Duration worst);

// The width of the terminal; 0 if `descriptor` is no terminal.
size_t TerminalWidth(int descriptor = STDOUT_FILENO);
// The rows of the terminal at standard output; 0 if there is none.
size_t TerminalHeight();
// The width at which text for standard output is wrapped.
size_t PageWidth(size_t widest = kPageWidth);
// Replaces the content of the terminal by these lines, as far as there is room. The terminal must
// be that of standard output.
void ShowPage(std::vector<std::string> lines);

// A line of text on the terminal at stderr. A new text replaces the previous one, also if that took
// several rows; the destructor removes it. It is shown only while the job owns the terminal:
// neither in the background, nor while ^Z has stopped the job. One thread at a time.
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
  // The control sequence that removes the text.
  std::string Erasure();

  const bool has_terminal_;
  const pid_t job_;
  size_t columns_ = 0;  // of the text that is shown
};

// Shows the progress of a long task on the terminal. It shows nothing in the first moments.
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

struct Process {
  char state = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool ended() const { return state == 'Z' || state == 'X'; }
};
// What /proc tells about a process; nullopt if there is none.
std::optional<Process> ReadProcess(pid_t pid);

// Opens /dev/null for each standard stream that the caller has closed, so that no other descriptor
// gets its number. A program that is executed finds them closed again.
void OccupyStandardDescriptors();

// Closes all descriptors except standard error and `kept`; standard input and output become
// /dev/null. The keeper calls it because the command has the same descriptors: the reader of a
// pipe, or the next user of a lock file, must wait only for the command.
void LetGoOfDescriptorsBut(std::vector<int> kept);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_OUTPUT_H_
