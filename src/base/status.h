#ifndef REDLATCH_SRC_BASE_STATUS_H_
#define REDLATCH_SRC_BASE_STATUS_H_

#include "absl/status/status.h"

namespace redlatch::base {

// A copy that shares nothing with its original: what one thread hands to another, where both may
// keep theirs. absl::Status counts its copies inside Debian's Abseil, which is not built for
// ThreadSanitizer: the end of the last copy would be reported as a race with the use of another.
absl::Status Unshared(const absl::Status& status);

// A copy for users: code and message, without the payloads that the layers below pass to each
// other, and safe for a terminal, whatever a server said.
absl::Status WithoutPayloads(const absl::Status& status);

// kResourceExhausted: a thread that the client needs cannot be started, or an allocation failed.
absl::Status NoThread();
absl::Status NoMemory() noexcept;

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_STATUS_H_
