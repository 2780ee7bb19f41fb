// The parts of Diagnose(), and what they say things with.
#ifndef REDLATCH_SRC_CLI_DOCTOR_CHECKS_H_
#define REDLATCH_SRC_CLI_DOCTOR_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/cli/doctor/facts.h"
#include "src/cli/doctor/findings.h"

namespace redlatch::cli {

class Findings {
 public:
  void Ok(std::string_view check, std::string found) {
    Add(Level::kOk, check, std::move(found), "", {});
  }
  void Unchecked(std::string_view check, std::string found, std::string mend = "",
                 std::vector<std::string> commands = {}) {
    Add(Level::kUnchecked, check, std::move(found), std::move(mend), std::move(commands));
  }
  void Note(std::string_view check, std::string found, std::string mend = "",
            std::vector<std::string> commands = {}) {
    Add(Level::kNote, check, std::move(found), std::move(mend), std::move(commands));
  }
  void Warn(std::string_view check, std::string found, std::string mend,
            std::vector<std::string> commands = {}) {
    Add(Level::kWarn, check, std::move(found), std::move(mend), std::move(commands));
  }
  void Bad(std::string_view check, std::string found, std::string mend,
           std::vector<std::string> commands = {}) {
    Add(Level::kBad, check, std::move(found), std::move(mend), std::move(commands));
  }
  void Add(Level level, std::string_view check, std::string found, std::string mend,
           std::vector<std::string> commands) {
    all_.push_back({.level = level,
                    .check = std::string(check),
                    .found = std::move(found),
                    .mend = std::move(mend),
                    .commands = std::move(commands)});
  }
  std::vector<Finding> Take() { return std::move(all_); }

 private:
  std::vector<Finding> all_;
};

void CheckQuorum(const QuorumFacts& facts, Findings& findings);
void CheckRestartDelay(const DoctorFacts& facts, Findings& findings);
void CheckCluster(const ClusterFacts& facts, Findings& findings);
void CheckCoverage(const DoctorFacts& facts, Findings& findings);
void CheckServer(const DoctorFacts& facts, Findings& findings);
void CheckMemory(const DoctorFacts& facts, Findings& findings);
void CheckStorage(const DoctorFacts& facts, Findings& findings);
void CheckReplicas(const DoctorFacts& facts, Findings& findings);
void CheckCertificate(const DoctorFacts& facts, Findings& findings);
void CheckSentinels(const DoctorFacts& facts, Findings& findings);
void CheckPromise(const DoctorFacts& facts, Findings& findings);
void CheckAccess(const DoctorFacts& facts, Findings& findings);
void CheckMessages(const DoctorFacts& facts, Findings& findings);
void CheckClock(const DoctorFacts& facts, Findings& findings);
void CheckLatency(const DoctorFacts& facts, Findings& findings);
void CheckLimits(const DoctorFacts& facts, Findings& findings);

// What the server told under that name; nothing where it did not.
std::optional<std::string> TextIn(const Told<Fields>& fields, std::string_view name);
std::optional<int64_t> NumberIn(const Told<Fields>& fields, std::string_view name);

// A primary that is cut off from its replicas stops, as far as CONFIG tells.
bool StopsAlone(const DoctorFacts& facts);

// What sets a parameter: "CONFIG SET name value", or "name value" for who can't read CONFIG.
std::string Setting(const DoctorFacts& facts, std::string_view name, std::string_view value);
// A sentence for the latter; else empty.
std::string WhereToSet(const DoctorFacts& facts);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_CHECKS_H_
