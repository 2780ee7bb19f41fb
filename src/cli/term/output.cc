#include "src/cli/term/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/error_address.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

constexpr size_t kLongestLine = 8000;

template <size_t n>
bool IsIn(const std::array<std::array<uint32_t, 2>, n>& ranges, uint32_t code) {
  return std::ranges::any_of(
      ranges, [code](const auto& range) { return range[0] <= code && code <= range[1]; });
}

// How many columns a terminal gives to a character: two to Chinese, Japanese and Korean ones and to
// most pictures, none to combining marks.
size_t ColumnsOf(uint32_t code) {
  constexpr std::array<std::array<uint32_t, 2>, 10> kWide = {{
      {0x1100, 0x115f},
      {0x2e80, 0x303e},
      {0x3041, 0xa4cf},
      {0xac00, 0xd7a3},
      {0xf900, 0xfaff},
      {0xfe30, 0xfe6f},
      {0xff00, 0xff60},
      {0xffe0, 0xffe6},
      {0x1f300, 0x1faff},
      {0x20000, 0x3fffd},
  }};
  if (0x300 <= code && code <= 0x36f) return 0;
  return IsIn(kWide, code) ? 2 : 1;
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = base::FirstCharacter(bytes).size;
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

struct Unit {
  double size;
  const char* name;
};

// "54", "1.25", "12.5": three digits, without trailing zeros.
std::string ThreeDigits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string text = absl::StrFormat("%.*f", decimals, value);
  if (decimals == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

template <size_t n>
std::string InUnits(double value, const Unit (&units)[n]) {
  const Unit* unit = std::begin(units);
  // Rounding must not give "1000 ms".
  while (std::next(unit) != std::end(units) && value >= 0.9995 * std::next(unit)->size) ++unit;
  return absl::StrCat(ThreeDigits(value / unit->size), " ", unit->name);
}

constexpr size_t kNarrowest = 30;
bool has_colours = false;
std::string reported_name;  // empty: stderr is for people

void WriteLine(std::string line) {
  line += '\n';
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

void CloseRange([[maybe_unused]] unsigned first, [[maybe_unused]] unsigned last) {
#ifdef SYS_close_range  // Linux 5.9; without it the descriptors stay open until the process ends
  syscall(SYS_close_range, first, last, 0);
#endif
}

}  // namespace

void Complain(std::initializer_list<std::string_view> parts, std::string_view event) {
  std::string line = ReportsInJson() ? "" : "redlatch: ";
  for (const std::string_view part : parts) line += part;
  base::AddAddress(line);
  for (char& byte : line) {
    if (byte == '\n' || byte == '\r') byte = ' ';
  }
  line = base::Shown(redis::WithoutPasswords(std::move(line)), kLongestLine);
  if (!ReportsInJson()) return WriteLine(line);
  Report(event, [&line](JsonObject& json) { json.Text("message", line); });
}

int Complain(int code, std::initializer_list<std::string_view> parts, std::string_view event) {
  Complain(parts, event);
  return code;
}

void ReportInJson(std::string_view name) { reported_name = name; }
bool ReportsInJson() { return !reported_name.empty(); }

void Report(std::string_view event, const std::function<void(JsonObject&)>& add) {
  if (!ReportsInJson()) return;
  JsonObject json;
  json.Text("event", event);
  json.Text("name", reported_name);
  add(json);
  WriteLine(json.Finish());
}

void PrintLine(std::string_view line, std::string_view colour) {
  const std::string shown = Coloured(colour, base::Shown(line)) + '\n';
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

std::string TextOf(const absl::Status& why) {
  std::string message(why.message());
  base::TakeAddress(message);  // Complain() appends it
  if (!absl::IsUnavailable(why)) return message;
  return absl::StrCat(message, message.ends_with('?') ? " " : "; ",
                      "set the server with --server or $REDLATCH_URL");
}

int Refuse(const absl::Status& why) { return Complain(CodeOf(why), {TextOf(why)}); }

int CodeOf(const absl::Status& why) {
  if (absl::IsUnavailable(why)) return kUnreachable;
  if (absl::IsNotFound(why)) return kNo;
  const bool wrong_usage = absl::IsInvalidArgument(why) || absl::IsUnimplemented(why);
  return wrong_usage ? kFailure : kRefused;
}

std::string JsonText(std::string_view bytes) {
  std::string out = "\"";
  while (!bytes.empty()) {
    const base::Character first = base::FirstCharacter(bytes);
    if (first.size == 0) {
      out += "\xef\xbf\xbd";
    } else if (first.code < 0x20 || (0x7f <= first.code && first.code < 0xa0)) {
      absl::StrAppendFormat(&out, "\\u%04x", first.code);
    } else {
      if (first.code == '"' || first.code == '\\') out += '\\';
      out.append(bytes.substr(0, first.size));
    }
    bytes.remove_prefix(std::max<size_t>(first.size, 1));
  }
  return out + "\"";
}

size_t Columns(std::string_view printable) {
  size_t columns = 0;
  while (!printable.empty()) {
    const base::Character first = base::FirstCharacter(printable);
    columns += ColumnsOf(first.code);
    printable.remove_prefix(std::max<size_t>(first.size, 1));
  }
  return columns;
}

std::string Cut(std::string_view printable, size_t columns) {
  if (Columns(printable) <= columns) return std::string(printable);
  size_t size = 0;
  size_t taken = 1;  // for the ellipsis
  while (size < printable.size()) {
    const base::Character next = base::FirstCharacter(printable.substr(size));
    taken += ColumnsOf(next.code);
    if (taken > columns) break;
    size += std::max<size_t>(next.size, 1);
  }
  return absl::StrCat(std::string(printable.substr(0, size)), "\u2026");
}

std::string Padded(std::string_view printable, size_t columns) {
  const size_t has = Columns(printable);
  return absl::StrCat(std::string(printable), std::string(has < columns ? columns - has : 0, ' '));
}

std::string Wrapped(std::string_view printable, size_t indent, size_t width) {
  std::string out(indent, ' ');
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(
           absl::string_view(printable.data(), printable.size()), ' ', absl::SkipEmpty())) {
    const size_t columns = Columns({word.data(), word.size()});
    if (column > indent && column + 1 + columns > width) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += columns;
  }
  return out + "\n";
}

std::string Brief(absl::Duration time) {
  if (time == absl::InfiniteDuration()) return "-";
  const int64_t seconds = absl::ToInt64Seconds(time);
  if (seconds < 60) {
    return absl::StrFormat("%.1fs",
                           absl::ToDoubleSeconds(absl::Floor(time, absl::Milliseconds(100))));
  }
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  const int64_t hours = seconds / 3600;
  if (hours < 48) return absl::StrFormat("%dh%02dm", hours, seconds / 60 % 60);
  return absl::StrFormat("%dd%02dh", hours / 24, hours % 24);
}

std::string Counted(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

void JsonObject::Text(std::string_view key, std::string_view bytes) {
  Json(key, JsonText(bytes));
  if (IsUtf8(bytes)) return;
  Json(absl::StrCat(std::string(key), "_base64"),
       JsonText(absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()))));
}

void JsonObject::Json(std::string_view key, std::string_view json) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", JsonText(key), ":", std::string(json));
}

void JsonObject::Millis(std::string_view key, absl::Duration time) {
  if (time == absl::InfiniteDuration()) return Null(key);
  Number(key, absl::ToInt64Milliseconds(time));
}

std::string ShortTime(absl::Duration time) {
  static constexpr Unit kUnits[] = {{1e-6, "µs"}, {1e-3, "ms"}, {1, "s"},
                                    {60, "min"},  {3600, "h"},  {86400, "days"}};
  if (time == absl::InfiniteDuration()) return "for ever";
  if (time <= absl::ZeroDuration()) return "0 s";
  return InUnits(absl::ToDoubleSeconds(time), kUnits);
}

std::string ShortSize(int64_t bytes) {
  static constexpr Unit kUnits[] = {
      {1, "bytes"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}};
  return InUnits(static_cast<double>(std::max<int64_t>(0, bytes)), kUnits);
}

Spread SpreadOf(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  const auto rank = [&times](double share) {
    const double place = std::ceil(share * static_cast<double>(times.size()));
    return times[std::min(times.size() - 1, static_cast<size_t>(std::max(place, 1.0)) - 1)];
  };
  return {.p50 = rank(0.5), .p99 = rank(0.99), .worst = times.back()};
}

absl::Duration ShortestLease(absl::Duration worst) {
  static constexpr std::array<int, 8> kSeconds = {1, 2, 3, 5, 10, 15, 30, 60};
  for (const int seconds : kSeconds) {
    if (20 * worst <= absl::Seconds(seconds)) return absl::Seconds(seconds);
  }
  return absl::Ceil(20 * worst, absl::Minutes(1));
}

namespace {

winsize SizeOfTerminal(int descriptor) {
  winsize size = {};
  if (isatty(descriptor) == 0) return size;
  (void)ioctl(descriptor, TIOCGWINSZ, &size);
  if (size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

}  // namespace

size_t TerminalWidth(int descriptor) { return SizeOfTerminal(descriptor).ws_col; }

size_t TerminalHeight() { return SizeOfTerminal(STDOUT_FILENO).ws_row; }

void UseColour(std::string_view when) {
  const char* const no_colour = std::getenv("NO_COLOR");
  const bool unwanted = no_colour != nullptr && *no_colour != '\0';
  has_colours = when == "always" || (when == "auto" && isatty(STDOUT_FILENO) == 1 && !unwanted);
}

bool HasColours() { return has_colours; }

std::string Coloured(std::string_view colour, std::string_view text) {
  if (!has_colours || colour.empty()) return std::string(text);
  return absl::StrCat("\x1b[", std::string(colour), "m", std::string(text), "\x1b[0m");
}

size_t PageWidth(size_t widest) {
  const size_t terminal = TerminalWidth();
  return terminal == 0 ? kPageWidth : std::clamp(terminal, kNarrowest, widest);
}

void ShowPage(std::vector<std::string> lines) {
  const size_t rows = std::max<size_t>(2, TerminalHeight());
  if (lines.size() >= rows) {  // the last row stays free, so that nothing scrolls
    const size_t more = lines.size() - (rows - 2);
    lines.resize(rows - 2);
    lines.push_back(absl::StrCat("and ", more, " more"));
  }
  std::string page = "\x1b[H";
  for (const std::string& line : lines) absl::StrAppend(&page, line, "\x1b[K\r\n");
  page += "\x1b[J";
  std::fwrite(page.data(), 1, page.size(), stdout);
  std::fflush(stdout);
}

TerminalLine::TerminalLine(pid_t job) : has_terminal_(isatty(STDERR_FILENO) != 0), job_(job) {}

// The foreground group is unknown if the terminal belongs to another session; then it is shown.
bool TerminalLine::OwnsTerminal() const {
  const pid_t foreground = tcgetpgrp(STDERR_FILENO);
  return foreground < 0 || foreground == job_;
}

std::string TerminalLine::Erasure() {
  if (columns_ == 0) return "";
  // Uses the present width, since terminals wrap their lines again when they are resized.
  const size_t rows = (columns_ - 1) / std::max<size_t>(1, TerminalWidth(STDERR_FILENO));
  columns_ = 0;
  return absl::StrCat(rows > 0 ? absl::StrCat("\x1b[", rows, "A") : "", "\r\x1b[J");
}

void TerminalLine::Show(std::string_view text) {
  if (!has_terminal_) return;
  if (!OwnsTerminal()) {
    columns_ = 0;  // other processes may have written below it
    return;
  }
  const std::string shown = base::Shown(text);
  const std::string line = absl::StrCat(Erasure(), "\r", shown);
  columns_ = Columns(shown);
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

std::optional<Process> ReadProcess(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text, '\0');
  // The program's name before these fields, in parentheses, may contain any characters.
  const char* const behind_name = std::strrchr(text.c_str(), ')');
  Process process;
  int group = 0;
  if (behind_name == nullptr || std::sscanf(behind_name + 1, " %c %d %d %d", &process.state,
                                            &process.parent, &group, &process.session) != 4) {
    return std::nullopt;
  }
  return process;
}

void OccupyStandardDescriptors() {
  int descriptor = 0;
  while ((descriptor = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && descriptor <= STDERR_FILENO) {
  }
  if (descriptor >= 0) close(descriptor);
}

void LetGoOfDescriptorsBut(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = STDERR_FILENO + 1;
  for (const int descriptor : kept) {
    const auto number = static_cast<unsigned>(descriptor);
    if (first < number) CloseRange(first, number - 1);
    first = number + 1;
  }
  CloseRange(first, ~0U);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
}

}  // namespace redlatch::cli
