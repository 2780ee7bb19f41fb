// What `redlatch doctor` has learnt of a quorum of servers: nothing here is judged yet.
#ifndef REDLATCH_SRC_CLI_DOCTOR_QUORUM_FACTS_H_
#define REDLATCH_SRC_CLI_DOCTOR_QUORUM_FACTS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "src/cli/doctor/cluster_facts.h"

namespace redlatch::cli {

struct QuorumFacts {
  std::string server;            // the URL without secrets
  absl::Duration restart_delay;  // by the URL
  std::vector<NodeFacts> nodes;  // its servers; `address` is the URL of each, without secrets
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_QUORUM_FACTS_H_
