// Recognises Redisson's locks by their keys, and reads these. It changes nothing.
#ifndef REDLATCH_SRC_CLI_INSPECT_REDISSON_H_
#define REDLATCH_SRC_CLI_INSPECT_REDISSON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/cli/inspect/inspect.h"
#include "src/cli/term/server.h"

namespace redlatch::cli::redisson {

inline constexpr std::string_view kReadWrite = "redisson_read_write_lock";
// A number that no further key and no waiter makes one or the other: perhaps another program's.
inline constexpr std::string_view kEither = "redisson_semaphore_or_latch";
// The suffix of a key of redlatch: a semaphore's permits that C++ clients have.
inline constexpr std::string_view kPermitsSuffix = "redisson.permits";
// The owner of a fair lock's waiters. Their `remaining` is how long they keep their places.
inline constexpr std::string_view kQueued = "queued";

// "Redisson read-write lock" for "redisson_read_write_lock"; empty for a kind that is not
// Redisson's.
std::string InWords(std::string_view kind);

// The further keys that show that a name is one of Redisson's: of a fair lock, of a fenced lock,
// and of a semaphore whose permits expire.
std::array<std::string, 3> KeysOf(const std::string& name);
// The name to which such a key belongs; empty if it is another key.
std::string NameIn(std::string_view key);

// True if a hash with this field may be a lock: "<UUID>:<thread id>", or a C++ client's grant id.
bool IsHolder(std::string_view field);

// Sets the kinds of those rows that are Redisson's locks, and reads up to `most` of the holders and
// waiters of each.
absl::Status Read(Server& server, const std::vector<LockRow*>& rows, int64_t now_us, size_t most);

}  // namespace redlatch::cli::redisson

#endif  // REDLATCH_SRC_CLI_INSPECT_REDISSON_H_
