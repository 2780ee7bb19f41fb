// The processes of an `embedded:` server: redis-server, and the keeper, a small shell script that
// is its parent, looks now and then whether it is still used, and stops it when it is not.
#ifndef REDLATCH_SRC_REDIS_EMBEDDED_KEEPER_H_
#define REDLATCH_SRC_REDIS_EMBEDDED_KEEPER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace redlatch::redis {

struct ServerPrograms {
  std::string server;
  std::string client;  // redis-cli; empty where there is none: the server never stops by itself
};

// redis-server or valkey-server, as `$REDLATCH_REDIS_SERVER` or PATH have it, and its client.
absl::StatusOr<ServerPrograms> FindServerPrograms();

// Starts keeper and server in a session of their own, with nothing of this process but a few
// environment variables: no descriptor, no signal mask, no working directory. Returns as soon as
// they are on their way.
//
// `alive` is a FIFO in `directory`. A descriptor for reading it is opened in the new processes
// alone, is there before this returns, and is gone when the server is: whether the FIFO has a
// reader tells whether there is a server, and the kernel keeps that true through every kill.
//
// REQUIRES: the caller keeps others from doing the same for `directory` meanwhile.
absl::Status SpawnKeptServer(const std::string& directory, const std::string& alive,
                             const ServerPrograms& programs, absl::Duration idle_stop);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_EMBEDDED_KEEPER_H_
