#include "tests/sim/world/coverage_report.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/sim/redis/script_coverage.h"

namespace redlatch::sim {
namespace {

std::set<std::string> Explained(const std::string& path) {
  std::set<std::string> explained;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t reason = line.rfind(" -- ");
    if (line[0] == '#' || reason == std::string::npos) continue;
    if (line.starts_with("src/")) continue;  // tests/coverage.py checks these
    explained.insert(line.substr(0, reason));
  }
  return explained;
}

std::set<std::string> Lines(const std::string& path) {
  std::set<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

}  // namespace

bool ReportCoverage(const FaultCounts& faults, const std::string& explained_in,
                    const std::string& taken_in) {
  std::set<std::string> missing;
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i] == 0) missing.insert(absl::StrCat("fault: ", Name(static_cast<FaultKind>(i))));
  }
  const ScriptCoverage::Result scripts = ScriptCoverage::Get()->Read();
  size_t missing_lines = 0;
  for (const ScriptCoverage::Line& line : scripts.all) {
    if (scripts.taken.contains(line)) continue;
    ++missing_lines;
    missing.insert(ScriptCoverage::Describe(line));
  }
  const std::set<std::string> explained = Explained(explained_in);
  const std::set<std::string> taken_by_tests = Lines(taken_in);
  bool good = true;
  size_t by_tests = 0;
  for (const std::string& each : missing) {
    const bool by_test = taken_by_tests.contains(each);
    by_tests += by_test;
    if (explained.contains(each)) continue;
    printf("%s: %s\n", by_test ? "taken by a script's tests alone" : "never taken", each.c_str());
    good = good && by_test;
  }
  for (const std::string& each : explained) {
    if (missing.contains(each) && !taken_by_tests.contains(each)) continue;
    printf("explained, but taken: %s\n", each.c_str());
    good = false;
  }
  printf(
      "%zu of %zu lines of scripts were taken, %zu others by tests of scripts alone; %zu are "
      "explained\n",
      scripts.all.size() - missing_lines, scripts.all.size(), by_tests, explained.size());
  return good;
}

}  // namespace redlatch::sim
