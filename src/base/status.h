#ifndef REDLATCH_SRC_BASE_STATUS_H_
#define REDLATCH_SRC_BASE_STATUS_H_

#include "absl/status/status.h"

namespace redlatch::base {

// Returns a copy that shares no memory with its original, unless memory is lacking: it is to be
// handed to another thread. Debian's Abseil, which counts the copies of a status, is not built for
// ThreadSanitizer: TSan would report the destruction of the last copy as a race with the use of
// another.
absl::Status Unshared(const absl::Status& status) noexcept;

// Returns a copy for users: code and message, without the payloads that internal layers pass to
// each other. The message is safe for a terminal, whatever a server said.
absl::Status WithoutPayloads(const absl::Status& status);

// kResourceExhausted: a thread that the client needs cannot be started, or an allocation failed.
absl::Status NoThread();
absl::Status NoMemory() noexcept;

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_STATUS_H_
