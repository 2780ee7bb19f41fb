#ifndef REDLATCH_SRC_CLI_LOOK_PROCESSES_H_
#define REDLATCH_SRC_CLI_LOOK_PROCESSES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "redlatch/lock_info.h"
#include "src/cli/term/server.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {

// Which process a client is of, as the clients have told the server. Each is asked for once.
class Processes {
 public:
  // Of these holds' clients. Where a server refuses that, or is not there, they stay unknown.
  void Ask(Server& server, const std::vector<std::string>& holds);
  // Nobody, with a pid of 0, where it is not known.
  LockInfo::Process Of(std::string_view hold) const;

 private:
  absl::flat_hash_map<std::string, LockInfo::Process> by_client_;
};

// "web1:4242 worker"; where it is not known, what the hold tells.
std::string Described(const LockInfo::Process& process, std::string_view hold);
// The same within a sentence: "worker (web1, pid 4242)".
std::string InProse(const LockInfo::Process& process, std::string_view hold);
// host, pid and program; none where it is not known.
void AddProcess(const LockInfo::Process& process, JsonObject& json);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_PROCESSES_H_
