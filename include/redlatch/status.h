// What the answers of a lock mean: predicates for the status face, an error category for the
// exceptions of the std face.
//
// Two more are absl's own: absl::IsCancelled(), the caller's stop token fired while it waited; and
// absl::IsUnavailable(), the server could not be reached, or did not answer in time. Whether it has
// executed what it was asked for is unknown then; redlatch sees to it that nothing is left of it.
//
// No predicate, since there is nothing that a program could do: kPermissionDenied (the server
// permits too little), kResourceExhausted (its memory is full), kInternal (it answered what makes
// no sense). The message says what to mend.
#ifndef REDLATCH_STATUS_H_
#define REDLATCH_STATUS_H_

#include <system_error>

#include "absl/status/status.h"
#include "redlatch/export.h"

namespace redlatch {

// Somebody else had the lock for as long as this call was willing to wait.
inline bool IsBusy(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDeadlineExceeded;
}

// The hold was lost before it was released: its lease ended, or somebody forced its release.
inline bool IsLeaseLost(const absl::Status& status) {
  return status.code() == absl::StatusCode::kAborted;
}

// The caller's mistake, or the key is not this kind of lock.
inline bool IsMisuse(const absl::Status& status) {
  return status.code() == absl::StatusCode::kFailedPrecondition ||
         status.code() == absl::StatusCode::kInvalidArgument;
}

// The category of the std::system_error that lock() and try_lock() throw: its codes are those of
// absl::StatusCode.
REDLATCH_EXPORT const std::error_category& error_category() noexcept;
REDLATCH_EXPORT std::error_code MakeErrorCode(absl::StatusCode code);

}  // namespace redlatch

#endif  // REDLATCH_STATUS_H_
