// What `redlatch doctor` has learnt of a cluster: nothing here is judged yet.
#ifndef REDLATCH_SRC_CLI_DOCTOR_CLUSTER_FACTS_H_
#define REDLATCH_SRC_CLI_DOCTOR_CLUSTER_FACTS_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "src/cli/doctor/facts.h"
#include "src/redis/wire/reply.h"

namespace redlatch::cli {

// A slot that has not come to the end of its way, as one of the two nodes says.
struct OpenSlot {
  int slot = 0;
  bool leaving = false;  // the node that says so; else it comes there
  std::string other;     // the id of the other node
};

// One node, as a node tells in CLUSTER NODES.
struct ClusterLine {
  std::string id;
  std::string address;          // that it announces; ":0" if that is not known
  std::set<std::string> flags;  // "master", "fail?"
  std::vector<OpenSlot> open;   // only of the node that tells
};
std::vector<ClusterLine> ReadClusterNodes(const std::string& text);

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
