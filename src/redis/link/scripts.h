#ifndef REDLATCH_SRC_REDIS_LINK_SCRIPTS_H_
#define REDLATCH_SRC_REDIS_LINK_SCRIPTS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/redis/link/script_call.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

// EVALSHA, or EVAL with the script's text.
Command EncodeCall(const ScriptCall& call, bool by_text);

// What NOSCRIPT comes to if the script's text is not sent either.
absl::Status NoTimeForText(std::string_view server);

// What the server's answer to a script comes to where it is not sent again: an error is a status.
// One that is to be sent again, with its text or elsewhere, was not sent.
absl::StatusOr<Reply> Unrepeated(absl::StatusOr<Reply> answer, std::string_view server);

// Runs scripts on a server by their SHA-1 (EVALSHA), and where the server does not know one, by
// its text (EVAL), which also teaches it. So a restarted server, a flushed script cache or a
// failover costs one more round trip and nothing else.
//
// What the server refuses before it executes anything, for a reason that passes (it loads its
// data, another script runs too long), is sent again with backoff until the deadline. Anything
// that may have been executed is never sent again here: so no script may return an error of its own
// that begins as such a refusal of the server's does (NOSCRIPT, and IsTransient() in errors.h).
//
// Thread-safe.
class Scripts {
 public:
  explicit Scripts(SharedConnection& connection) : connection_(connection) {}

  // The script's reply. An error reply is a status here: ErrorStatus().
  absl::StatusOr<Reply> Run(const ScriptCall& call, base::Instant deadline,
                            StillWanted still_wanted = AlwaysWanted);

  // All calls in one pipelined write, each answered for itself. Those that must be sent again go
  // together in a second one: calls of one batch have no order among each other.
  void RunBatch(absl::Span<const ScriptCall> calls, base::Instant deadline,
                absl::Span<absl::StatusOr<Reply>> results, StillWanted still_wanted = AlwaysWanted);

 private:
  SharedConnection& connection_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SCRIPTS_H_
