#include "tests/sim/world/coverage_report.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/redis/script_coverage.h"

namespace redlatch::sim {
namespace {

std::set<std::string> Explained(const std::string& path) {
  std::set<std::string> explained;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t reason = line.rfind(" -- ");
    if (line.empty() || line[0] == '#' || reason == std::string::npos) continue;
    explained.insert(line.substr(0, reason));
  }
  return explained;
}

}  // namespace

bool ReportCoverage(const FaultCounts& faults, const std::string& explained_in) {
  std::set<std::string> missing;
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i] == 0) missing.insert(absl::StrCat("fault: ", Name(static_cast<FaultKind>(i))));
  }
  const ScriptCoverage::Result scripts = ScriptCoverage::Get()->Read();
  for (const ScriptCoverage::Line& line : scripts.all) {
    if (scripts.taken.contains(line)) continue;
    missing.insert(absl::StrCat(
        line.first, ": ", std::string(absl::StripAsciiWhitespace(ScriptCoverage::TextOf(line)))));
  }
  const std::set<std::string> explained = Explained(explained_in);
  bool good = true;
  for (const std::string& each : missing) {
    if (explained.contains(each)) continue;
    printf("never taken: %s\n", each.c_str());
    good = false;
  }
  for (const std::string& each : explained) {
    if (missing.contains(each)) continue;
    printf("explained, but taken: %s\n", each.c_str());
    good = false;
  }
  printf("%zu of %zu lines of scripts were taken; %zu that were not are explained\n",
         scripts.taken.size(), scripts.all.size(), explained.size());
  return good;
}

}  // namespace redlatch::sim
