#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "src/base/clock.h"
#include "src/cli/doctor/findings.h"
#include "src/cli/doctor/gather.h"
#include "src/cli/doctor/report.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/commands.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/server.h"
#include "src/cli/term/text.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kLongestLook = absl::Seconds(10);

bool WantsColour() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace

int Doctor(const std::vector<std::string>& words) {
  CommandLine line("doctor");
  bool json = false;
  std::string prefix;
  line.Flag("--json", &json);
  line.Text("--prefix", "the beginning of your locks' names", &prefix);
  if (const std::optional<int> over = line.Parse(words)) return *over;
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(line.server());
  if (!url.ok()) return Refuse(url.status());
  DoctorFacts facts;
  const absl::Status gathered =
      Gather(*url, line.server(), prefix, base::Now() + kLongestLook, &facts);
  if (!gathered.ok()) {
    if (json) {
      JsonObject report;
      report.Text("server", facts.server);
      report.Text("verdict", absl::IsUnavailable(gathered) ? "unreachable" : "unusable");
      report.Text("error", std::string(gathered.message()));
      report.Json("checks", "[]");
      std::puts(report.Finish().c_str());
    }
    return Refuse(gathered);
  }
  const std::vector<Finding> findings = Diagnose(facts);
  const std::string report =
      json ? JsonReport(facts.server, findings) : TextReport(facts.server, findings, WantsColour());
  std::fputs(report.c_str(), stdout);
  return DoctorExitCode(findings);
}

}  // namespace redlatch::cli
