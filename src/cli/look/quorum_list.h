#ifndef REDLATCH_SRC_CLI_LOOK_QUORUM_LIST_H_
#define REDLATCH_SRC_CLI_LOOK_QUORUM_LIST_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/cli/look/lock_rows.h"
#include "src/cli/term/quorum_servers.h"

namespace redlatch::cli {

struct QuorumList {
  std::vector<LockRow> rows;           // each lock once, by name
  size_t others = 0;                   // locks of other kinds that the servers have
  std::vector<absl::Status> outcomes;  // of each server
};

// All locks of the quorum whose names match. Looks at all keys of all its servers.
QuorumList ListQuorum(QuorumServers& servers, std::string_view pattern);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_QUORUM_LIST_H_
