#include "src/cli/doctor/doctor.h"

#include <cstdint>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "src/cli/term/command_line.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kLongestCheck = absl::Seconds(10);
constexpr size_t kLevelColumns = 11;
constexpr size_t kCheckColumns = 13;
constexpr size_t kTextColumn = kLevelColumns + kCheckColumns;

struct LevelStyle {
  std::string_view name;
  std::string_view colour;
};

const LevelStyle& StyleOf(Level level) {
  static constexpr LevelStyle kStyles[] = {{"ok", "\033[32m"},
                                           {"unchecked", "\033[2m"},
                                           {"note", "\033[36m"},
                                           {"warn", "\033[33m"},
                                           {"bad", "\033[1;31m"}};
  return kStyles[static_cast<size_t>(level)];
}

std::string TextOf(const Finding& finding, bool colour, size_t width) {
  std::string level = Padded(StyleOf(finding.level).name, kLevelColumns);
  if (colour) level = absl::StrCat(std::string(StyleOf(finding.level).colour), level, "\033[0m");
  constexpr size_t kLongest = 3000;  // a server may send any text
  std::string found =
      finding.where.empty() ? finding.found : absl::StrCat(finding.where, ": ", finding.found);
  found.resize(std::min(found.size(), kLongest));
  std::string out = absl::StrCat(level, Padded(finding.check, kCheckColumns),
                                 Wrapped(Printable(found), kTextColumn, width).substr(kTextColumn));
  bool pointed = !finding.fix.empty();
  if (pointed) {
    out += Wrapped(Printable(finding.fix), kTextColumn + 3, width).replace(kTextColumn, 3, "-> ");
  }
  for (const std::string& command : finding.commands) {
    // On one line, so that it can be copied.
    absl::StrAppend(&out, std::string(kTextColumn, ' '), pointed ? "   " : "-> ",
                    Printable(command), "\n");
    pointed = true;
  }
  return out;
}

std::string Summary(const std::vector<Finding>& findings) {
  std::vector<std::string> parts;
  const auto count = [&](Level level, const char* what) {
    const auto found = std::ranges::count(findings, level, &Finding::level);
    if (found > 0) parts.push_back(absl::StrCat(found, " ", what));
  };
  count(Level::kBad, "unfit for locks");
  count(Level::kWarn, "to change");
  count(Level::kNote, "good to know");
  count(Level::kUnchecked, "not checked");
  count(Level::kOk, "ok");
  return absl::StrJoin(parts, ", ") + ".";
}

bool NamesConfigSet(const Finding& finding) {
  return std::ranges::any_of(finding.commands, [](const std::string& command) {
    return command.starts_with("CONFIG SET") || command.starts_with("ACL SETUSER");
  });
}

// The findings; an error if no server can be checked.
absl::StatusOr<std::vector<Finding>> Examine(const redis::Url& url, const std::string& url_text,
                                             const std::string& prefix) {
  if (url.kind == redis::Url::Kind::kCluster || url.kind == redis::Url::Kind::kQuorum) {
    const absl::StatusOr<GroupFacts> group = GatherGroup(url, url_text, prefix, kLongestCheck);
    if (!group.ok()) return group.status();
    return Diagnose(*group);
  }
  Facts facts;
  absl::Status gathered = Gather({.url = url, .url_text = url_text, .prefix = prefix},
                                 base::Now() + kLongestCheck, &facts);
  if (!gathered.ok()) return gathered;
  return Diagnose(facts);
}

}  // namespace

int DoctorExitCode(const std::vector<Finding>& findings) {
  Level worst = Level::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  if (worst == Level::kBad) return kRefused;
  return worst == Level::kWarn ? kNeedsChange : 0;
}

std::string TextReport(const std::string& server, const std::vector<Finding>& findings, bool colour,
                       size_t width) {
  std::string out = absl::StrCat(server, "\n\n");
  for (const Finding& finding : findings) out += TextOf(finding, colour, width);
  absl::StrAppend(&out, "\n", Summary(findings), "\n");
  if (std::ranges::any_of(findings, NamesConfigSet)) {
    const bool of_nodes = std::ranges::any_of(
        findings, [](const Finding& finding) { return !finding.nodes.empty(); });
    out += Wrapped(
        absl::StrCat("Run these commands in redis-cli",
                     of_nodes ? " at each node that is named" : "",
                     ". To keep the changes across a restart, use CONFIG REWRITE and ACL SAVE, or "
                     "redis.conf."),
        0, width);
  }
  const auto set = std::ranges::find_if(
      findings, [](const Finding& finding) { return !finding.setting.empty(); });
  if (set != findings.end()) {
    out += Wrapped(absl::StrCat("A line such as \"", set->setting,
                                "\" is a setting: change it in the server's configuration, or in "
                                "the console of the hosted service."),
                   0, width);
  }
  return out;
}

std::string JsonReport(const std::string& server,
                       const absl::StatusOr<std::vector<Finding>>& findings) {
  const int code = findings.ok() ? DoctorExitCode(*findings) : kRefused;
  std::string checks;
  for (const Finding& finding : findings.value_or(std::vector<Finding>())) {
    JsonObject check;
    check.Text("check", finding.check);
    check.Text("level", StyleOf(finding.level).name);
    check.Text("found", finding.found);
    check.Text("mend", finding.fix);
    check.Json("commands", JsonList(finding.commands, JsonText));
    if (!finding.nodes.empty()) check.Json("nodes", JsonList(finding.nodes, JsonText));
    absl::StrAppend(&checks, checks.empty() ? "[\n" : ",\n", check.Finish());
  }
  JsonObject report;
  report.Text("server", server);
  report.Text("verdict", absl::IsUnavailable(findings.status()) ? "unreachable"
                         : code == 0                            ? "well"
                         : code == kNeedsChange                 ? "change"
                                                                : "unusable");
  if (!findings.ok()) report.Text("error", std::string(findings.status().message()));
  report.Json("checks", findings.ok() ? checks + "\n]" : "[]");
  return report.Finish() + "\n";
}

int Doctor(const std::vector<std::string>& words) {
  CommandLine line("doctor");
  bool json = false;
  std::string prefix;
  line.Flag("--json", &json);
  line.Colour();
  line.Text("--prefix", "the beginning of your locks' names", &prefix);
  if (const std::optional<int> over = line.Parse(words)) return *over;
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(line.server());
  if (!url.ok()) return Refuse(url.status());
  const std::string server = url->DebugString();
  const absl::StatusOr<std::vector<Finding>> findings = Examine(*url, line.server(), prefix);
  if (json) std::fputs(JsonReport(server, findings).c_str(), stdout);
  if (!findings.ok()) return Refuse(findings.status());
  if (!json) {
    const size_t width = PageWidth(SIZE_MAX);
    std::fputs(TextReport(server, *findings, HasColours(), width).c_str(), stdout);
  }
  return DoctorExitCode(*findings);
}

}  // namespace redlatch::cli
