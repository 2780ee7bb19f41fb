#ifndef REDLATCH_SRC_CLI_LOOK_LOCK_FINDER_H_
#define REDLATCH_SRC_CLI_LOOK_LOCK_FINDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/cli/term/server.h"

namespace redlatch::cli {

struct FoundLock {
  std::string name;
  uint8_t parts = 0;  // which of its keys there were; of Part
  std::vector<std::string> queues =
      {};  // suffixes of its queues, of which it has one for each kind
};

// All locks whose name matches, by name. Goes through all keys of the server by SCAN, a few at a
// time. `progress` hears now and then how many keys it has seen.
absl::StatusOr<std::vector<FoundLock>> FindLocks(Server& server, std::string_view pattern,
                                                 const std::function<void(int64_t keys)>& progress);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_LOCK_FINDER_H_
