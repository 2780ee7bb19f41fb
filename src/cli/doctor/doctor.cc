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
#include "src/cli/term/terminal.h"
#include "src/cli/term/text.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kLongestLook = absl::Seconds(10);

bool WantsColour() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

// What there is to say of the server, the cluster or the quorum; not OK where it says nothing.
// `name`: it.
absl::StatusOr<std::vector<Finding>> Examine(const redis::Url& url, const std::string& url_text,
                                             const std::string& prefix, std::string* name) {
  *name = url.DebugString();
  if (url.kind == redis::Url::Kind::kCluster) {
    ClusterFacts facts;
    absl::Status gathered = GatherCluster(url, url_text, prefix, kLongestLook, &facts);
    if (!gathered.ok()) return gathered;
    return Diagnose(facts);
  }
  if (url.kind == redis::Url::Kind::kQuorum) {
    QuorumFacts facts;
    absl::Status gathered = GatherQuorum(url, url_text, prefix, kLongestLook, &facts);
    if (!gathered.ok()) return gathered;
    return Diagnose(facts);
  }
  DoctorFacts facts;
  const Patient patient = {.url = url, .url_text = url_text, .prefix = prefix};
  absl::Status gathered = Gather(patient, base::Now() + kLongestLook, &facts);
  if (!gathered.ok()) return gathered;
  return Diagnose(facts);
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
  std::string server;
  const absl::StatusOr<std::vector<Finding>> findings =
      Examine(*url, line.server(), prefix, &server);
  if (!findings.ok()) {
    if (json) {
      JsonObject report;
      report.Text("server", server);
      report.Text("verdict", absl::IsUnavailable(findings.status()) ? "unreachable" : "unusable");
      report.Text("error", std::string(findings.status().message()));
      report.Json("checks", "[]");
      std::puts(report.Finish().c_str());
    }
    return Refuse(findings.status());
  }
  const std::string report = json ? JsonReport(server, *findings)
                                  : TextReport(server, *findings, WantsColour(), PageWidth());
  std::fputs(report.c_str(), stdout);
  return DoctorExitCode(*findings);
}

}  // namespace redlatch::cli
