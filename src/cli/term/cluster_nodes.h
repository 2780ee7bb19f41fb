// What a node of a cluster tells of all nodes.
#ifndef REDLATCH_SRC_CLI_TERM_CLUSTER_NODES_H_
#define REDLATCH_SRC_CLI_TERM_CLUSTER_NODES_H_

#include <set>
#include <string>
#include <vector>

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
  bool serves = false;          // any slots
  std::vector<OpenSlot> open;   // only of the node that tells
};
std::vector<ClusterLine> ReadClusterNodes(const std::string& text);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_CLUSTER_NODES_H_
