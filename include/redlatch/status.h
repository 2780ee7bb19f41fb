// What the errors of a lock mean: predicates for statuses, and the category of exceptions.
//
// For two outcomes, use absl's own predicates. absl::IsCancelled(): the caller's stop token fired
// during the wait, or the lock object was destroyed. absl::IsUnavailable(): the server could not be
// reached, or did not answer in time. It may have executed the request all the same; the client
// then undoes that in the background.
//
// There are no predicates for kPermissionDenied (the user lacks a permission), kResourceExhausted
// (a lack of memory or threads) and kInternal (the server's answer makes no sense), because a
// program can do nothing about them. The message says how to fix the problem.
#ifndef REDLATCH_STATUS_H_
#define REDLATCH_STATUS_H_

#include <system_error>

#include "absl/status/status.h"
#include "redlatch/export.h"

namespace redlatch {

// The lock was busy for as long as this call could wait.
inline bool IsBusy(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDeadlineExceeded;
}

// The hold was lost before it was released: its lease ended, or its release was forced.
inline bool IsLeaseLost(const absl::Status& status) {
  return status.code() == absl::StatusCode::kAborted;
}

// The caller made a mistake, or the key is not this kind of lock.
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
