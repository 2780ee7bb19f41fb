#ifndef REDLATCH_SRC_LOCK_STATE_HOLD_OWNER_H_
#define REDLATCH_SRC_LOCK_STATE_HOLD_OWNER_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"

namespace redlatch::internal {

// Releases and extends the hold of a lease: a lock of one server group, or of several. Thread-safe.
// In a forked child, calls are refused or do nothing.
class HoldOwner {
 public:
  virtual ~HoldOwner() = default;

  // kFailedPrecondition in a forked child.
  virtual absl::Status Refusal() const = 0;
  // Implement Lease::Release() and Lease::Extend(). `token` is for the observer, if the hold was
  // lost.
  virtual absl::Status Release(uint64_t hold, FencingToken token) = 0;
  virtual absl::Status Extend(uint64_t hold, absl::Duration lease) = 0;
  // Release() without a caller that waits for the outcome.
  virtual void ReleaseQuietly(uint64_t hold, FencingToken token) = 0;

  // Starts Release() and returns. `then` turns the outcome into a completion, which runs where the
  // user wants. The operation does not keep this object alive.
  using Then = absl::AnyInvocable<absl::AnyInvocable<void() &&>(absl::Status) &&>;
  virtual void ReleaseAsync(uint64_t hold, FencingToken token, Then then) = 0;
  // Runs the completion there.
  virtual void Tell(absl::AnyInvocable<void() &&> completion) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_HOLD_OWNER_H_
