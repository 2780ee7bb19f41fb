// What `redlatch doctor` has learnt of a cluster: nothing here is judged yet.
#ifndef REDLATCH_SRC_CLI_DOCTOR_CLUSTER_FACTS_H_
#define REDLATCH_SRC_CLI_DOCTOR_CLUSTER_FACTS_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "src/cli/doctor/facts.h"
#include "src/cli/term/cluster_nodes.h"

namespace redlatch::cli {

// A node that the URL names.
struct SeedFacts {
  std::string address;
  absl::Status reached = absl::UnknownError("not asked");
  std::set<std::string> primaries;  // ids of those that it knows to serve slots
  std::string announced;            // its own address, if it tells that
};

// A node that serves slots, or a replica of one.
struct NodeFacts {
  std::string address;  // that it announces
  bool is_replica = false;
  std::string slots;  // "0-5460"; of a primary
  absl::Status reached = absl::UnknownError("not asked");
  DoctorFacts facts;
  Told<Fields> state = absl::UnknownError("not asked");  // CLUSTER INFO
  Told<std::vector<ClusterLine>> nodes = absl::UnknownError("not asked");
};

struct ClusterFacts {
  std::string server;  // the URL without secrets
  std::vector<SeedFacts> seeds;
  std::vector<NodeFacts> nodes;
  size_t unserved = 0;         // slots of which some node knows nobody who serves them
  std::string unserved_slots;  // "0-99, 200"
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_CLUSTER_FACTS_H_
