// How the API reports outcomes: exceptions for the std calls, leases for the others.
#ifndef REDLATCH_SRC_API_OUTCOMES_H_
#define REDLATCH_SRC_API_OUTCOMES_H_

#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/lease.h"
#include "redlatch/status.h"
#include "src/lock/lock_handle.h"

namespace redlatch {

[[noreturn]] inline void Throw(const absl::Status& status) {
  throw std::system_error(MakeErrorCode(status.code()), std::string(status.message()));
}

// For a thread that would wait for itself.
[[noreturn]] inline void ThrowDeadlock(const absl::Status& status) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                          std::string(status.message()));
}

inline Hold HoldOf(internal::HoldRef ref) { return {std::move(ref.view), ref.token}; }

inline absl::StatusOr<Lease> LeaseOf(absl::StatusOr<internal::OwnedHold> owned) {
  if (!owned.ok()) return owned.status();
  const uint64_t id = owned->held.hold;
  return Lease(std::move(owned->handle), id, HoldOf(std::move(owned->held)));
}

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_OUTCOMES_H_
