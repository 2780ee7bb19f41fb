#ifndef REDLATCH_SRC_LOCK_STATE_HOLD_OWNER_H_
#define REDLATCH_SRC_LOCK_STATE_HOLD_OWNER_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"

namespace redlatch::internal {

// Whom a lease has its hold from, and through whom that ends: a lock of one server group, or of
// several. Thread-safe; refuses, or does nothing, in a forked child.
class HoldOwner {
 public:
  virtual ~HoldOwner() = default;

  // kFailedPrecondition in a forked child.
  virtual absl::Status Refusal() const = 0;
  // As Lease::Release() and Lease::Extend() say. `token`: for the observer, if the hold was lost.
  virtual absl::Status Release(uint64_t hold, FencingToken token) = 0;
  virtual absl::Status Extend(uint64_t hold, absl::Duration lease) = 0;
  // Release(), where nobody waits to hear of it.
  virtual void ReleaseQuietly(uint64_t hold, FencingToken token) = 0;

  // Release() that does not wait: begins it, and has `then` make a completion of what it came to,
  // which is run where the user wants completions to run. It keeps nothing of this.
  using Then = absl::AnyInvocable<absl::AnyInvocable<void() &&>(absl::Status) &&>;
  virtual void ReleaseAsync(uint64_t hold, FencingToken token, Then then) = 0;
  // Runs it there.
  virtual void Tell(absl::AnyInvocable<void() &&> completion) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_HOLD_OWNER_H_
