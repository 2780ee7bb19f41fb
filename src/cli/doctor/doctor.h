// What `redlatch doctor` prints, and how it exits.
#ifndef REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
#define REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_

#include <string>
#include <vector>

#include "src/cli/doctor/checks.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {

// 0, kNeedsChange or kRefused, by the worst finding.
int DoctorExitCode(const std::vector<Finding>& findings);

std::string TextReport(const std::string& server, const std::vector<Finding>& findings, bool colour,
                       size_t width = kPageWidth);
// One object: server, verdict ("well", "change", "unusable"), checks.
std::string JsonReport(const std::string& server, const std::vector<Finding>& findings);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
