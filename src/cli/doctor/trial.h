// Every kind of lock, taken and released through the library under names of its own.
#ifndef REDLATCH_SRC_CLI_DOCTOR_TRIAL_H_
#define REDLATCH_SRC_CLI_DOCTOR_TRIAL_H_

#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/cli/doctor/facts.h"

namespace redlatch::cli {

// Fills library, trials and slowest_pair; the outcome of what it did not come to is kCancelled.
// What is left of the locks are the keys of TrialKeys(), each with a TTL. Ends soon after
// `deadline`.
void TryLocks(const std::string& url, const std::string& name, base::Instant deadline,
              DoctorFacts* facts);

std::vector<std::string> TrialNames(const std::string& name);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_TRIAL_H_
