// What `redlatch doctor` concludes from the facts: pure functions over one table of checks.
#ifndef REDLATCH_SRC_CLI_DOCTOR_CHECKS_H_
#define REDLATCH_SRC_CLI_DOCTOR_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/doctor/facts.h"
#include "src/cli/term/output.h"

namespace redlatch::cli {

enum class Level : uint8_t {
  kOk,
  kUnchecked,  // the server did not let us look
  kNote,       // good to know; nothing has to be done
  kWarn,       // should be changed
  kBad,        // not fit for locks as it is
};

struct Finding {
  Level level = Level::kOk;
  std::string check;  // "persistence"
  std::string found;  // one sentence
  std::string mend;   // one sentence that says how to fix it; empty if there is nothing to do
  // To be typed as they are: for redis-cli, or lines of the server's configuration if the server
  // lets no user set it.
  std::vector<std::string> commands = {};
  // The nodes of a cluster or a quorum of which this was found, also as text. Empty: the whole.
  std::vector<std::string> nodes = {};
  std::string where = {};
  bool differs = false;  // the nodes' figures differ; `found` has those of the first
};

// One finding or more for each check, in the order of the table. Findings about a cluster or a
// quorum come first, then those of its nodes: what several nodes share is one finding.
std::vector<Finding> Diagnose(const DoctorFacts& facts);
std::vector<Finding> Diagnose(const ClusterFacts& facts);
std::vector<Finding> Diagnose(const QuorumFacts& facts);

// 0, kNeedsChange or kRefused, by the worst finding.
int DoctorExitCode(const std::vector<Finding>& findings);

std::string TextReport(const std::string& server, const std::vector<Finding>& findings, bool colour,
                       size_t width = kPageWidth);
// One object: server, verdict ("well", "change", "unusable"), checks.
std::string JsonReport(const std::string& server, const std::vector<Finding>& findings);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_CHECKS_H_
