// What `redlatch doctor` prints.
#ifndef REDLATCH_SRC_CLI_DOCTOR_REPORT_H_
#define REDLATCH_SRC_CLI_DOCTOR_REPORT_H_

#include <string>
#include <vector>

#include "src/cli/doctor/findings.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {

std::string TextReport(const std::string& server, const std::vector<Finding>& findings, bool colour,
                       size_t width = kPageWidth);

// One object: server, verdict ("well", "change", "unusable"), checks.
std::string JsonReport(const std::string& server, const std::vector<Finding>& findings);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_REPORT_H_
