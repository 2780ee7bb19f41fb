#ifndef REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
#define REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_

#include <string>
#include <vector>

#include "src/cli/term/page.h"

namespace redlatch::cli {

// `redlatch doctor`, with what follows these words. The exit code.
int Doctor(const std::vector<std::string>& words);

extern const Page kDoctorPage;

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
