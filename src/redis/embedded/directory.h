// Where the server behind `embedded:` lies.
//
// docs/decisions/0003-embedded-server.md tells why there.
#ifndef REDLATCH_SRC_REDIS_EMBEDDED_DIRECTORY_H_
#define REDLATCH_SRC_REDIS_EMBEDDED_DIRECTORY_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace redlatch::redis {

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

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_EMBEDDED_DIRECTORY_H_
