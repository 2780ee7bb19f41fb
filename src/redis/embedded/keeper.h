// The processes of an `embedded:` server: redis-server, and the keeper, a small shell script. The
// keeper is the server's parent, checks now and then if it is used, and stops it if it is not.
#ifndef REDLATCH_SRC_REDIS_EMBEDDED_KEEPER_H_
#define REDLATCH_SRC_REDIS_EMBEDDED_KEEPER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace redlatch::redis {

struct ServerPrograms {
  std::string server;
  std::string client;  // redis-cli; empty if there is none: the server never stops by itself
};

// Finds redis-server or valkey-server by `$REDLATCH_REDIS_SERVER` or PATH, and its client.
absl::StatusOr<ServerPrograms> FindServerPrograms();

// Starts keeper and server in a session of their own. They inherit nothing but a few environment
// variables: no descriptor, no signal mask, no working directory. Returns as soon as the shell has
// started them.
//
// `alive` is a FIFO in `directory`. Only the new processes open it for reading. That happens before
// this returns, and the descriptor is closed when the server ends. So the FIFO has a reader exactly
// while there is a server, and the kernel ensures this even if a process is killed.
//
// REQUIRES: the caller prevents others from doing this for `directory` meanwhile.
absl::Status SpawnKeptServer(const std::string& directory, const std::string& alive,
                             const ServerPrograms& programs, absl::Duration idle_stop);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_EMBEDDED_KEEPER_H_
