// Recognises Redisson's locks by their keys, and reads these. It changes nothing.
#ifndef REDLATCH_SRC_CLI_INSPECT_REDISSON_H_
#define REDLATCH_SRC_CLI_INSPECT_REDISSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/cli/inspect/inspect.h"
#include "src/cli/term/server.h"
#include "src/lock/kinds.h"

namespace redlatch::cli::redisson {

// A number that no further key and no waiter makes one or the other: perhaps another program's.
inline constexpr std::string_view kEither = "redisson_semaphore_or_latch";
// The owner of a fair lock's waiters. Their `remaining` is how long they keep their places.
inline constexpr std::string_view kQueued = "queued";

// "Redisson read-write lock" for "redisson_read_write_lock"; empty for a kind that is not
// Redisson's.
std::string InWords(std::string_view kind);

// The suffixes of the keys of a fair lock, a fenced lock, and a semaphore whose permits expire.
inline constexpr std::string_view kSuffixes[] = {internal::kinds::kRedissonQueue,
                                                 internal::kinds::kRedissonToken,
                                                 internal::kinds::kRedissonPermits};
// The name to which such a key belongs; empty if it is another key.
std::string NameIn(std::string_view key);

// True if a hash with this field may be a lock: "<UUID>:<thread id>", or a C++ client's grant id.
bool IsHolder(std::string_view field);

// Sets the kinds of those rows that are Redisson's locks, and reads up to `most` of the holders and
// waiters of each. If `most` is 1, further keys have shown that each row is one, if it is a string.
absl::Status Read(Server& server, const std::vector<LockRow*>& rows, int64_t now_us, size_t most);

}  // namespace redlatch::cli::redisson

#endif  // REDLATCH_SRC_CLI_INSPECT_REDISSON_H_
