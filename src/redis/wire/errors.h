// Errors as absl::Status: a server's error replies, and failures of connections.
#ifndef REDLATCH_SRC_REDIS_WIRE_ERRORS_H_
#define REDLATCH_SRC_REDIS_WIRE_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// The error replies that redlatch must tell apart, by their first words.
enum class ErrorCode : uint8_t {
  kOther,
  kNoScript,
  kLoading,
  kBusy,
  kReadOnly,
  kMasterDown,
  kNoReplicas,
  kOutOfMemory,
  kNoAuth,
  kWrongPass,
  kNoPermission,
  kWrongType,
  kMoved,
  kAsk,
  kTryAgain,
  kClusterDown,
  kTooManyClients,
  kUnknownCommand,
  kStoppedMidway,  // a script, at a key that has moved
};

ErrorCode ClassifyError(std::string_view error_text);

// True if the server executed nothing, and this server or another one will accept the same command
// later: it is loading its data, runs a long script, a slot moves, or it is a replica.
bool IsTransient(ErrorCode code);

// True if the server is a replica: the primary is elsewhere.
bool IsReplicas(ErrorCode code);

// Cuts the arguments of the command from an error: a server that does not know a command repeats
// them, and those of AUTH are secret.
std::string_view WithoutArguments(std::string_view error_text);

// True if a server says this to a user who lacks a key pattern.
bool DeniesKey(std::string_view error_text);

// Returns a status for an error reply of `server`, with advice if there is any.
absl::Status ErrorStatus(std::string_view reply, std::string_view server);

// A redirection: another node of the cluster has the key.
struct Redirect {
  bool once = false;  // ASK: for this command alone, after ASKING; the slot is moving
  Slot slot = 0;
  std::string host;  // empty: the host of the node that redirects
  uint16_t port = 0;
};
// Returns the redirection in a status made by ErrorStatus(), if it is one. Nothing was executed.
std::optional<Redirect> RedirectOf(const absl::Status& status);

// True if the server may have executed a command that failed with this status: some of its bytes
// were handed to the kernel, and no reply came.
bool MayHaveExecuted(const absl::Status& status);
absl::Status MarkMayHaveExecuted(absl::Status status) noexcept;

// True if a command failed with this status because there was no connection to send it on. The
// status may have any code: a wrong password may be right at the next attempt.
bool NotSent(const absl::Status& status);

// True if the server refused the command for a reason that passes, and executed nothing.
bool RefusedForNow(const absl::Status& status);
absl::Status MarkNotSent(absl::Status status) noexcept;

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_WIRE_ERRORS_H_
