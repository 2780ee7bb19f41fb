// Messages to users about one lock of a client.
#ifndef REDLATCH_SRC_LOCK_ABOUT_H_
#define REDLATCH_SRC_LOCK_ABOUT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/lock/client_core.h"
#include "src/lock/entry.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// Adds the name of the lock and its server to the status. If memory is lacking, only the code is
// kept.
absl::Status About(ClientCore& core, const Entry& entry, absl::StatusCode code,
                   absl::string_view message, absl::string_view more = "") noexcept;
inline absl::Status About(ClientCore& core, const Entry& entry, const absl::Status& status) {
  return About(core, entry, status.code(), status.message());
}

// The outcome of a release as a status.
absl::Status StatusOf(ClientCore& core, const Entry& entry, const Released& released) noexcept;

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ABOUT_H_
