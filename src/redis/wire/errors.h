// What went wrong, as absl::Status: of a server's error reply, and of a connection.
#ifndef REDLATCH_SRC_REDIS_WIRE_ERRORS_H_
#define REDLATCH_SRC_REDIS_WIRE_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// What an error reply begins with, where it is something that redlatch must know.
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

// The server refused before it executed anything, and will accept the same command when whatever
// holds it up is over: loading its data, a long script, a slot on the move; or another server will,
// if this one is a replica.
bool IsTransient(ErrorCode code);

// The server is a replica, or has become one: whatever it is asked, the primary is elsewhere.
bool IsReplicas(ErrorCode code);

// A server that does not know a command repeats its arguments, and AUTH's are secret.
std::string_view WithoutArguments(std::string_view error_text);

// Whether that is what a server says to a user who lacks a key pattern.
bool DeniesKey(std::string_view error_text);

// A status for an error reply of `server`, with what to do about it, if that is known.
absl::Status ErrorStatus(std::string_view reply, std::string_view server);

// Where else a node of a cluster says that a key is.
struct Redirect {
  bool once = false;  // for this command alone, behind ASKING: the slot is on the move
  Slot slot = 0;
  std::string host;  // empty: that of the node which says so
  uint16_t port = 0;
};
// Of the status that ErrorStatus() made of such an answer: nothing was executed.
std::optional<Redirect> RedirectOf(const absl::Status& status);

// Whether a command that failed with this status may have been executed by the server all the
// same: its bytes, or some of them, were handed to the kernel, and no answer came.
bool MayHaveExecuted(const absl::Status& status);
absl::Status MarkMayHaveExecuted(absl::Status status);

// Whether a command failed with this status because there was no connection to send it on: whatever
// its code, the server has said nothing to the command itself. A password that was wrong for a
// moment may be right the next time.
bool NotSent(const absl::Status& status);

// Whether the server itself has refused it, for a reason that passes, and executed nothing.
bool RefusedForNow(const absl::Status& status);
absl::Status MarkNotSent(absl::Status status);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_WIRE_ERRORS_H_
