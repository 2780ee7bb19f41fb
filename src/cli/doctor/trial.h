// Every kind of lock, taken and released through the library under names of its own.
#ifndef REDLATCH_SRC_CLI_DOCTOR_TRIAL_H_
#define REDLATCH_SRC_CLI_DOCTOR_TRIAL_H_

#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/cli/doctor/facts.h"

namespace redlatch::cli {

// Fills library, trials and slowest_pair; the outcome of what it did not come to is kCancelled.
// `names`: one for each of kinds::kAll. What is left of the locks are their keys, each with a TTL.
// Ends soon after `deadline`.
void TryLocks(const std::string& url, const std::vector<std::string>& names, base::Instant deadline,
              DoctorFacts* facts);
// The same with the one kind that a quorum has, at one of its servers alone.
void TryQuorum(const std::string& url, const std::vector<std::string>& names,
               base::Instant deadline, DoctorFacts* facts);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_TRIAL_H_
