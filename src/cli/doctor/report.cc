#include "src/cli/doctor/report.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

constexpr size_t kLevelColumns = 11;
constexpr size_t kCheckColumns = 13;
constexpr size_t kTextColumn = kLevelColumns + kCheckColumns;

struct Look {
  std::string_view name;
  std::string_view colour;
};

const Look& LookOf(Level level) {
  static constexpr Look kLooks[] = {{"ok", "\033[32m"},
                                    {"unchecked", "\033[2m"},
                                    {"note", "\033[36m"},
                                    {"warn", "\033[33m"},
                                    {"bad", "\033[1;31m"}};
  return kLooks[static_cast<size_t>(level)];
}

std::string TextOf(const Finding& finding, bool colour, size_t width) {
  std::string level = Padded(LookOf(finding.level).name, kLevelColumns);
  if (colour) level = absl::StrCat(std::string(LookOf(finding.level).colour), level, "\033[0m");
  constexpr size_t kLongest = 3000;  // a server may send any text
  std::string found =
      finding.where.empty() ? finding.found : absl::StrCat(finding.where, ": ", finding.found);
  found.resize(std::min(found.size(), kLongest));
  std::string out = absl::StrCat(level, Padded(finding.check, kCheckColumns),
                                 Wrapped(Printable(found), kTextColumn, width).substr(kTextColumn));
  bool pointed = !finding.mend.empty();
  if (pointed) {
    out += Wrapped(Printable(finding.mend), kTextColumn + 3, width).replace(kTextColumn, 3, "-> ");
  }
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

std::string ListOf(const std::vector<std::string>& texts) {
  std::vector<std::string> list;
  for (const std::string& text : texts) list.push_back(JsonText(text));
  return absl::StrCat("[", absl::StrJoin(list, ","), "]");
}

}  // namespace

std::string TextReport(const std::string& server, const std::vector<Finding>& findings, bool colour,
                       size_t width) {
  std::string out = absl::StrCat(server, "\n\n");
  for (const Finding& finding : findings) out += TextOf(finding, colour, width);
  absl::StrAppend(&out, "\n", Summary(findings), "\n");
  if (NamesConfigSet(findings)) {
    const bool of_nodes = std::ranges::any_of(
        findings, [](const Finding& finding) { return !finding.nodes.empty(); });
    out += Wrapped(
        of_nodes
            ? "Run these commands in redis-cli at each node that is named. To keep the changes "
              "across a restart, use CONFIG REWRITE and ACL SAVE, or redis.conf."
            : "Run these commands in redis-cli. To keep the changes across a restart, use CONFIG "
              "REWRITE "
              "and ACL SAVE, or redis.conf.",
        0, width);
  }
  return out;
}

std::string JsonReport(const std::string& server, const std::vector<Finding>& findings) {
  const int code = DoctorExitCode(findings);
  std::vector<std::string> checks;
  for (const Finding& finding : findings) {
    JsonObject check;
    check.Text("check", finding.check);
    check.Text("level", LookOf(finding.level).name);
    check.Text("found", finding.found);
    check.Text("mend", finding.mend);
    check.Json("commands", ListOf(finding.commands));
    if (!finding.nodes.empty()) check.Json("nodes", ListOf(finding.nodes));
    checks.push_back(check.Finish());
  }
  JsonObject report;
  report.Text("server", server);
  report.Text("verdict", code == 0 ? "well" : code == kNeedsChange ? "change" : "unusable");
  report.Json("checks", absl::StrCat("[\n", absl::StrJoin(checks, ",\n"), "\n]"));
  return report.Finish() + "\n";
}

}  // namespace redlatch::cli
