#include "src/cli/doctor/report.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/cli/term/exit_codes.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kLevelColumns = 11;
constexpr size_t kCheckColumns = 13;
constexpr size_t kTextColumn = kLevelColumns + kCheckColumns;

std::string_view Colour(Level level) {
  switch (level) {
    case Level::kOk:
      return "\033[32m";
    case Level::kUnchecked:
      return "\033[2m";
    case Level::kNote:
      return "\033[36m";
    case Level::kWarn:
      return "\033[33m";
    case Level::kBad:
      return "\033[1;31m";
  }
  return "";
}

// The words in lines of kWidth columns, of which the first begins with `first` and the others
// with `indent` blanks.
std::string Filled(const std::string& first, size_t indent, const std::string& text) {
  std::string out = first;
  size_t column = indent;
  bool begins = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t columns = Columns({word.data(), word.size()});
    if (!begins && column + 1 + columns > kWidth) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '), word);
      column = indent + columns;
    } else {
      absl::StrAppend(&out, begins ? "" : " ", word);
      column += columns + (begins ? 0 : 1);
    }
    begins = false;
  }
  return out + "\n";
}

std::string TextOf(const Finding& finding, bool colour) {
  std::string level = Padded(LevelName(finding.level), kLevelColumns);
  if (colour) level = absl::StrCat(std::string(Colour(finding.level)), level, "\033[0m");
  std::string out =
      Filled(level + Padded(finding.check, kCheckColumns), kTextColumn, Printable(finding.found));
  if (!finding.mend.empty()) {
    out += Filled(std::string(kTextColumn, ' ') + "-> ", kTextColumn + 3, Printable(finding.mend));
  }
  bool pointed = !finding.mend.empty();
  for (const std::string& command : finding.commands) {
    // In one line: it is there to be copied.
    absl::StrAppend(&out, std::string(kTextColumn, ' '), pointed ? "   " : "-> ",
                    Printable(command), "\n");
    pointed = true;
  }
  return out;
}

std::string Summary(const std::vector<Finding>& findings) {
  const auto count = [&findings](Level level) {
    return std::count_if(findings.begin(), findings.end(),
                         [level](const Finding& finding) { return finding.level == level; });
  };
  std::vector<std::string> parts;
  const auto say = [&parts, &count](Level level, std::string_view what) {
    if (count(level) > 0) parts.push_back(absl::StrCat(count(level), " ", std::string(what)));
  };
  say(Level::kBad, "unfit for locks");
  say(Level::kWarn, "to change");
  say(Level::kNote, "good to know");
  say(Level::kUnchecked, "not checked");
  say(Level::kOk, "ok");
  return absl::StrJoin(parts, ", ") + ".";
}

bool NamesConfigSet(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    for (const std::string& command : finding.commands) {
      if (command.starts_with("CONFIG SET") || command.starts_with("ACL SETUSER")) return true;
    }
  }
  return false;
}

}  // namespace

std::string TextReport(const std::string& server, const std::vector<Finding>& findings,
                       bool colour) {
  std::string out = absl::StrCat(server, "\n\n");
  for (const Finding& finding : findings) out += TextOf(finding, colour);
  absl::StrAppend(&out, "\n", Summary(findings), "\n");
  if (NamesConfigSet(findings)) {
    out += Filled("", 0,
                  "Run these commands in redis-cli. To keep the changes across a restart, use "
                  "CONFIG REWRITE and ACL SAVE, or redis.conf.");
  }
  return out;
}

std::string JsonReport(const std::string& server, const std::vector<Finding>& findings) {
  const int code = DoctorExitCode(findings);
  std::vector<std::string> checks;
  for (const Finding& finding : findings) {
    std::vector<std::string> commands;
    for (const std::string& command : finding.commands) commands.push_back(JsonText(command));
    JsonObject check;
    check.Text("check", finding.check);
    check.Text("level", LevelName(finding.level));
    check.Text("found", finding.found);
    check.Text("mend", finding.mend);
    check.Json("commands", absl::StrCat("[", absl::StrJoin(commands, ","), "]"));
    checks.push_back(check.Finish());
  }
  JsonObject report;
  report.Text("server", server);
  report.Text("verdict", code == 0 ? "well" : code == kNeedsChange ? "change" : "unusable");
  report.Json("checks", absl::StrCat("[\n", absl::StrJoin(checks, ",\n"), "\n]"));
  return report.Finish() + "\n";
}

}  // namespace redlatch::cli
