#ifndef REDLATCH_SRC_CLI_DOCTOR_GATHER_QUORUM_H_
#define REDLATCH_SRC_CLI_DOCTOR_GATHER_QUORUM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/cli/doctor/quorum_facts.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// Looks at all servers of a quorum at the same time, as Gather() does at one, for `longest` at
// most. Not OK if none can be looked at, or if one of them is a cluster.
absl::Status GatherQuorum(const redis::Url& url, const std::string& url_text,
                          const std::string& prefix, absl::Duration longest, QuorumFacts* facts);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_GATHER_QUORUM_H_
