// What `redlatch doctor` concludes from what it has learnt: a pure function.
#ifndef REDLATCH_SRC_CLI_DOCTOR_FINDINGS_H_
#define REDLATCH_SRC_CLI_DOCTOR_FINDINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/doctor/facts.h"

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
  std::string mend;   // one sentence; empty where there is nothing to do
  // To be typed as they are: for redis-cli, or lines of its configuration where the server lets
  // nobody set it.
  std::vector<std::string> commands;
  // Of a cluster or a quorum: the nodes of which this was found, as text too. Empty: of itself.
  std::vector<std::string> nodes = {};
  std::string where = {};
  bool differs = false;  // but for its figures, which are those of the first
};

// One line or more for each check, in a fixed order.
std::vector<Finding> Diagnose(const DoctorFacts& facts);
// First of the cluster itself, then of its nodes: what is found of several is one finding.
std::vector<Finding> Diagnose(const ClusterFacts& facts);
// The same of a quorum and its servers.
std::vector<Finding> Diagnose(const QuorumFacts& facts);

// 0, kNeedsChange or kRefused.
int DoctorExitCode(const std::vector<Finding>& findings);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_FINDINGS_H_
