#ifndef REDLATCH_TESTS_SIM_REDIS_REPLICATION_H_
#define REDLATCH_TESTS_SIM_REDIS_REPLICATION_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/sim/redis/keyspace.h"

namespace redlatch::sim {

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

#endif  // REDLATCH_TESTS_SIM_REDIS_REPLICATION_H_
