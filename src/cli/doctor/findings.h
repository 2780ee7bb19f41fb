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
};

// One line or more for each check, in a fixed order.
std::vector<Finding> Diagnose(const DoctorFacts& facts);

// 0, kNeedsChange or kRefused.
int DoctorExitCode(const std::vector<Finding>& findings);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_FINDINGS_H_
