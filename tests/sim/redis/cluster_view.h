#ifndef REDLATCH_TESTS_SIM_REDIS_CLUSTER_VIEW_H_
#define REDLATCH_TESTS_SIM_REDIS_CLUSTER_VIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace redlatch::sim {

struct ClusterNode {
  std::string id;  // 40 hex digits
  std::string host;
  int port = 0;
  std::string primary_id;  // of a replica
  bool failed = false;     // for CLUSTER SHARDS: whether its health is "fail"
};

// What one node believes of its cluster. Nodes may believe different things.
struct ClusterView {
  std::string me;  // the node's own id
  std::vector<ClusterNode> nodes;
  struct Range {
    int first, last;
    std::string owner;
  };
  std::vector<Range> ranges;
  std::map<int, std::string> migrating;  // slot -> the node to which it moves
  std::map<int, std::string> importing;  // slot -> the node from which it comes
  int64_t epoch = 1;
  bool down = false;

  const ClusterNode* Find(const std::string& id) const {
    for (const ClusterNode& node : nodes) {
      if (node.id == id) return &node;
    }
    return nullptr;
  }
  const std::string* OwnerOf(int slot) const {
    for (const Range& range : ranges) {
      if (slot >= range.first && slot <= range.last) return &range.owner;
    }
    return nullptr;
  }
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_CLUSTER_VIEW_H_
