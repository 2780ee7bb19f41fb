// What a client tells people of itself: redlatch:client:<client id>, a line of text.
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

// How long a description stays, and when a client that lives writes it anew.
struct DescriptionPace {
  absl::Duration lifetime = absl::Hours(1);
  absl::Duration refresh = absl::Minutes(20);
};

// Behind it the client id, and before it nothing: it is the same for all key prefixes.
inline constexpr std::string_view kDescriptionKeyPrefix = "redlatch:client:";

// The client in a hold id: <client>:<number>, and `k` where its holder may keep it. Empty where the
// text is none of this version of the protocol.
std::string_view ClientOf(std::string_view hold);
// Whether its client may keep it though no thread needs it, until somebody else asks.
bool MayBeKept(std::string_view hold);

// This process; `program` empty: the program's own name.
LockInfo::Process ThisProcess(std::string_view program);

// "<pid> <microseconds since when> <host> <program>": one line, where what is too long is cut, and
// what is no text for a line replaced. A program may have spaces in its name.
std::string WriteDescription(const LockInfo::Process& process, absl::Time since);

// Nothing where it is no such line.
std::optional<LockInfo::Process> ReadDescription(std::string_view text);

// Under which a client is described.
std::string DescriptionKey(std::string_view client);

redis::Command DescribeCommand(std::string_view client, const LockInfo::Process& process,
                               absl::Time since, absl::Duration lifetime);

// The same where memory is full, too: it always writes.
redis::Command DescribeAnewCommand(std::string_view client, const LockInfo::Process& process,
                                   absl::Time since, absl::Duration lifetime);

// Fills in the processes of those holders and waiters whose clients have told of themselves. One
// command, none where there is nobody; where it fails, nothing is known of anybody.
void AddProcesses(redis::ServerGroup& server_group, base::Instant deadline, LockInfo& info);

// Takes a client's description away when it is destroyed. Waits for nobody: where the server is not
// there, the description ends by itself.
class DescriptionRemover {
 public:
  // The server group outlives this object.
  DescriptionRemover(redis::ServerGroup& server_group, std::string_view client);
  ~DescriptionRemover();
  DescriptionRemover(const DescriptionRemover&) = delete;
  DescriptionRemover& operator=(const DescriptionRemover&) = delete;

 private:
  redis::ServerGroup& server_group_;
  const std::string key_;
  const redis::Command command_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_DESCRIPTION_H_
