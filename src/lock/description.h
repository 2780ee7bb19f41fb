// How a client describes itself to people: a line of text at redlatch:client:<client id>.
#ifndef REDLATCH_SRC_LOCK_DESCRIPTION_H_
#define REDLATCH_SRC_LOCK_DESCRIPTION_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "redlatch/lock_info.h"
#include "src/base/clock.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/wire/codec.h"

namespace redlatch::internal {

// How long a description lives, and when a live client writes it again.
struct DescriptionPace {
  absl::Duration lifetime = absl::Hours(1);
  absl::Duration refresh = absl::Minutes(20);
};

// The client id follows. No key prefix comes before it: all prefixes share these keys.
inline constexpr std::string_view kDescriptionKeyPrefix = "redlatch:client:";

// The client in a grant id, which is <client>:<number>, and `k` if the grant is cacheable. Returns
// an empty text if `hold` is not a grant id of this version of the protocol.
std::string_view ClientOf(std::string_view hold);
// Returns true if the grant's client may cache it.
bool MayBeCached(std::string_view hold);

// Describes this process; if `program` is empty, by its own name.
LockInfo::Process ThisProcess(std::string_view program);

// Returns "<pid> <microseconds since when> <host> <program>" on one line. Long texts are cut, and
// characters that do not belong on a line are replaced. The program's name may contain spaces.
std::string WriteDescription(const LockInfo::Process& process, absl::Time since);

// Returns nothing if the text is not a description.
std::optional<LockInfo::Process> ReadDescription(std::string_view text);

// The key of the client's description.
std::string DescriptionKey(std::string_view client);

// `even_if_full`: also if the server has no memory left.
redis::Command DescribeCommand(std::string_view client, const LockInfo::Process& process,
                               absl::Time since, absl::Duration lifetime,
                               bool even_if_full = false);

// The owner of a lock that stays taken, if it is no simple lock.
inline constexpr std::string_view kTaken = "taken";

// Returns true if that grant was released and its name stays taken: its number begins with a zero.
inline bool StaysTaken(std::string_view hold) {
  return !ClientOf(hold).empty() && hold.find(":0") != std::string_view::npos;
}

// Fills in the processes of the holders and waiters whose clients have a description, and which
// holders' names stay taken. Runs one batch of commands, or none if there are no clients. If it
// fails, nothing is filled in.
void AddProcesses(redis::ServerGroup& server_group, base::Instant deadline, LockInfo& info);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_DESCRIPTION_H_
