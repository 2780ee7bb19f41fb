#include "src/cli/doctor/findings.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/outcome.h"

namespace redlatch::cli {

std::vector<Finding> Diagnose(const DoctorFacts& facts) {
  Findings findings;
  CheckServer(facts, findings);
  CheckCertificate(facts, findings);
  if (facts.place != Place::kAlone) CheckCoverage(facts, findings);
  if (facts.place == Place::kReplica) {
    CheckAccess(facts, findings);
    CheckMemory(facts, findings);
    CheckStorage(facts, findings);
    CheckClock(facts, findings);
    CheckLimits(facts, findings);
    return findings.Take();
  }
  CheckSentinels(facts, findings);
  CheckAccess(facts, findings);
  CheckMemory(facts, findings);
  CheckStorage(facts, findings);
  CheckReplicas(facts, findings);
  if (facts.of_quorum) {
    CheckRestartDelay(facts, findings);
  } else {
    CheckPromise(facts, findings);
  }
  CheckMessages(facts, findings);
  CheckLatency(facts, findings);
  CheckClock(facts, findings);
  CheckLimits(facts, findings);
  return findings.Take();
}

int DoctorExitCode(const std::vector<Finding>& findings) {
  Level worst = Level::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  if (worst == Level::kBad) return kRefused;
  return worst == Level::kWarn ? kNeedsChange : 0;
}

std::optional<std::string> TextIn(const Told<Fields>& fields, std::string_view name) {
  if (!fields.ok()) return std::nullopt;
  const auto found = fields->find(name);
  if (found == fields->end()) return std::nullopt;
  return found->second;
}

std::optional<int64_t> NumberIn(const Told<Fields>& fields, std::string_view name) {
  const std::optional<std::string> text = TextIn(fields, name);
  int64_t number = 0;
  if (!text || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return number;
}

// A lag of 0 switches it off.
bool StopsAlone(const DoctorFacts& facts) {
  return NumberIn(facts.config, "min-replicas-to-write").value_or(0) > 0 &&
         NumberIn(facts.config, "min-replicas-max-lag").value_or(10) > 0;
}

std::string Setting(const DoctorFacts& facts, std::string_view name, std::string_view value) {
  return absl::StrCat(facts.config.ok() ? "CONFIG SET " : "", std::string(name), " ",
                      std::string(value));
}

std::string WhereToSet(const DoctorFacts& facts) {
  return facts.config.ok() ? "" : "in its configuration, or in the settings of the hosted service";
}

}  // namespace redlatch::cli
