#ifndef REDLATCH_SRC_CLI_DOCTOR_GATHER_CLUSTER_H_
#define REDLATCH_SRC_CLI_DOCTOR_GATHER_CLUSTER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/cli/doctor/cluster_facts.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// Gather() at each primary and, what makes sense there, at each replica, some at a time, for
// `longest` each; and what the nodes say of each other. Not OK if no node tells who they are.
absl::Status GatherCluster(const redis::Url& url, const std::string& url_text,
                           const std::string& prefix, absl::Duration longest, ClusterFacts* facts);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_GATHER_CLUSTER_H_
