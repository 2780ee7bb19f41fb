#ifndef REDLATCH_TESTS_SIM_REDIS_SERVER_STATE_H_
#define REDLATCH_TESTS_SIM_REDIS_SERVER_STATE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/redis/keyspace.h"

namespace redlatch::sim {

// Conditions in which a server refuses commands. Each refuses what Redis refuses then, in scripts
// too.
struct Conditions {
  bool loading = false;        // LOADING
  bool busy = false;           // BUSY
  bool out_of_memory = false;  // OOM, for commands that may need memory; also `maxmemory 1`
  bool cannot_save = false;    // MISCONF, for writes
  bool few_replicas = false;   // NOREPLICAS, for writes
};

// What the user may not do; everything else is permitted. Commands in lower case, as in ACL rules.
struct Permissions {
  std::vector<std::string> denied_commands;
  std::vector<std::string> key_patterns = {"*"};
  std::vector<std::string> channel_patterns = {"*"};
};

// An error that is replied instead of executing a command.
struct Refusal {
  std::string error;                  // "READONLY You can't write against a read only replica."
  std::vector<std::string> commands;  // lower case; empty: all
  int times = std::numeric_limits<int>::max();
  bool in_scripts = false;  // the commands that scripts call, instead of those of clients
};

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

// Which connections have subscribed to which channels.
class PubSub {
 public:
  bool Add(std::string_view channel, uint64_t connection) {
    std::vector<uint64_t>& all = channels_[channel];
    const auto place = std::lower_bound(all.begin(), all.end(), connection);
    if (place != all.end() && *place == connection) return false;
    all.insert(place, connection);
    return true;
  }
  bool Remove(std::string_view channel, uint64_t connection) {
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return false;
    const bool removed = std::erase(found->second, connection) > 0;
    if (found->second.empty()) channels_.erase(found);
    return removed;
  }
  // In the order of their ids, which is the order in which a message is delivered.
  std::vector<uint64_t> Subscribers(std::string_view channel) const {
    const auto found = channels_.find(channel);
    return found == channels_.end() ? std::vector<uint64_t>() : found->second;
  }
  int64_t Count(std::string_view channel) const {
    const auto found = channels_.find(channel);
    return found == channels_.end() ? 0 : static_cast<int64_t>(found->second.size());
  }

 private:
  StringMap<std::vector<uint64_t>> channels_;
};

struct Message {
  std::string channel, text;
  bool sharded = false;
};

// All that one command or script changed, as a replica applies it.
struct LogEntry {
  int64_t offset = 0;
  std::vector<KeyChange> changes;
  std::vector<Message> messages;  // for subscribers at the replica
};
using Log = std::deque<LogEntry>;

// Whose stream of changes a server has, and up to where.
struct ReplicationState {
  std::string id;                             // master_replid
  std::string old_id = std::string(40, '0');  // master_replid2: valid up to old_id_until - 1
  int64_t old_id_until = -1;                  // second_repl_offset
  int64_t offset = 0;
};

// What a full synchronisation transfers, and a restart with its data finds.
struct Snapshot {
  Keyspace keys;
  ReplicationState replication;
};

struct Role {
  std::string primary_host;  // empty: the server is a primary
  int primary_port = 0;
  bool link_up = true;
  bool is_replica() const { return !primary_host.empty(); }
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_SERVER_STATE_H_
