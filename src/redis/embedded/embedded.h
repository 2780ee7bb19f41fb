#ifndef REDLATCH_SRC_REDIS_EMBEDDED_EMBEDDED_H_
#define REDLATCH_SRC_REDIS_EMBEDDED_EMBEDDED_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::redis {

// The directory of the server behind `embedded:`: `$REDLATCH_EMBEDDED_DIRECTORY`, or
// `/tmp/redlatch-<uid>`. It is the same for every process of a user, however it was started;
// docs/decisions/0003-embedded-server.md says why it is there. kFailedPrecondition: /tmp is private
// to one service.
absl::StatusOr<std::string> DefaultEmbeddedDirectory();

// True if /tmp is private to a service by systemd's PrivateTmp=, by the text of
// /proc/self/mountinfo.
bool TmpIsPrivate(const std::string& mountinfo);

// Returns the directory to use for `directory`, or the default one if that is empty. It exists and
// belongs to this user alone if this returns OK. Fails as EnsureEmbeddedServer() does.
absl::StatusOr<std::string> EmbeddedDirectory(std::string_view directory);

// The server behind `embedded:`: a redis-server of this user, on a Unix socket in a directory that
// only this user may enter. The first client starts it, all processes of the user on this machine
// share it, and it stops by itself when it is no longer used.
//
// docs/decisions/0003-embedded-server.md says why two servers never serve one directory, and why
// stopping an unused one loses nothing.

struct EmbeddedOptions {
  // The directory of the socket: an absolute path, whose last part is created if it is missing.
  // Empty: see DefaultEmbeddedDirectory().
  std::string directory;

  // The server stops when for this long no client was connected and it had no key that counts as
  // use (see census.lua). The client that starts the server sets this for all.
  absl::Duration idle_stop = absl::Seconds(60);
};

// Finds this user's server, or starts it, and returns the path of its socket, where it listened a
// moment ago. Costs a few system calls if it is running; never blocks past `deadline`.
// Thread-safe, and safe against every other process that calls it.
//
//   kUnavailable         not running by the deadline: it goes on starting for a later call; or it
//                        ended while it started: the message holds the end of its log
//   kFailedPrecondition  no redis-server on this machine; or a directory of the wrong kind or mode;
//                        or none is named, and /tmp is private to one service
//   kPermissionDenied    the directory belongs to another user
//   kInvalidArgument     a relative directory, or one too long for a socket
absl::StatusOr<std::string> EnsureEmbeddedServer(const EmbeddedOptions& options,
                                                 base::Instant deadline);

// Returns the socket of this user's server if it is running, and does not start it. Fails as
// EnsureEmbeddedServer() does.
absl::StatusOr<std::optional<std::string>> FindEmbeddedServer(std::string_view directory);

struct ServerPrograms {
  std::string server;
  std::string client;  // redis-cli; empty if there is none: the server never stops by itself
};

// Finds redis-server or valkey-server by `$REDLATCH_REDIS_SERVER` or PATH, and its client.
absl::StatusOr<ServerPrograms> FindServerPrograms();

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_EMBEDDED_EMBEDDED_H_
