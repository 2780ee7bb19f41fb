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

// Where the server behind `embedded:` lies.
//
// docs/decisions/0003-embedded-server.md tells why there.

// `$REDLATCH_EMBEDDED_DIRECTORY`, or `/tmp/redlatch-<uid>`: the same for every process of a user,
// whatever started it. kFailedPrecondition where /tmp is one service's own.
absl::StatusOr<std::string> DefaultEmbeddedDirectory();

// Whether /tmp is what systemd's PrivateTmp= gives a service, by the text of
// /proc/self/mountinfo.
bool TmpIsPrivate(std::string_view mountinfo);

// The directory that is used for `directory`, or for none; it is there and ours alone when this
// returns OK. Errors as of EnsureEmbeddedServer().
absl::StatusOr<std::string> EmbeddedDirectory(std::string_view directory);

// The status of a system call that failed: "embedded: cannot <what> '<path>': <why>".
absl::Status ErrnoStatus(std::string_view what, const std::string& path, int error);

// The server behind `embedded:`: a redis-server of this user's own, on a Unix socket in a
// directory that nobody else may enter. The first client starts it, all processes of the user on
// this machine share it, and it stops by itself when it is no longer used.
//
// docs/decisions/0003-embedded-server.md tells why two servers never serve one directory, and why
// stopping an unused one loses nothing.

struct EmbeddedOptions {
  // Where the socket lies: an absolute path, created (the last part of it) where it is missing.
  // Empty: see DefaultEmbeddedDirectory().
  std::string directory;

  // The server stops when nobody was connected, and no key but fences was there, for this long.
  // What the client that starts it asks for, holds for all; infinite: it never stops by itself.
  absl::Duration idle_stop = absl::Seconds(60);
};

// Finds this user's server, or starts it, and returns the path of its socket, where it listened a
// moment ago. Costs a few system calls where it is up; blocks no longer than `deadline`.
// Thread-safe, and safe against every other process that calls it.
//
//   kUnavailable         not up by the deadline: it goes on starting, and a later call finds it;
//                        or it ended while it started: the message holds the end of its log
//   kFailedPrecondition  no redis-server on this machine; or a directory of the wrong kind or mode;
//                        or none is named, and /tmp is one service's own
//   kPermissionDenied    a directory that belongs to somebody else
//   kInvalidArgument     a relative directory, or one too long for a socket
absl::StatusOr<std::string> EnsureEmbeddedServer(const EmbeddedOptions& options,
                                                 base::Instant deadline);

// The socket of this user's server where one listens; it is not started where none does. Errors as
// above.
absl::StatusOr<std::optional<std::string>> FindEmbeddedServer(std::string_view directory);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_EMBEDDED_EMBEDDED_H_
