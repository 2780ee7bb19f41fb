// Permits of a semaphore, and the handle that gives them back.
#ifndef REDLATCH_PERMIT_H_
#define REDLATCH_PERMIT_H_

#include <cstdint>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/awaitable.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/lease.h"

namespace redlatch {

// Permits that end with this handle: the result of Semaphore::Acquire().
//
//   the permits are   valid()   lost()           remaining()                count()
//   held              true      not requested    until the local deadline   as requested
//   released          false     not requested    zero                       the same
//   lost              false     requested        zero                       the same
//   empty             false     not requested    zero                       0
//
// They are one hold: like a Lease, they are renewed, lost and given back together. They have no
// fencing token, because several holders have permits at the same time. A Permit may outlive the
// semaphore object and the client, and may be moved and destroyed on any thread. All other methods
// may be called by several threads at the same time.
class REDLATCH_EXPORT Permit {
 public:
  Permit() = default;  // empty
  Permit(Permit&& other) noexcept
      : lease_(std::move(other.lease_)), count_(std::exchange(other.count_, 0)) {}
  Permit& operator=(Permit&& other) noexcept {
    if (this == &other) return *this;
    lease_ = std::move(other.lease_);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  // Gives the permits back, as ~Lease() does.
  ~Permit() = default;

  int64_t count() const { return count_; }

  // As those of Hold and Lease.
  bool valid() const { return lease_.valid(); }
  absl::Duration remaining() const { return lease_.remaining(); }
  std::stop_token lost() const { return lease_.lost(); }
  absl::Status Release() { return lease_.Release(); }
  void ReleaseAsync(Lease::ReleaseCallback callback) { lease_.ReleaseAsync(std::move(callback)); }
  Awaitable<absl::Status> ReleaseAwaitable() { return lease_.ReleaseAwaitable(); }
  absl::Status Extend(Duration lease) { return lease_.Extend(lease); }

  // For the library.
  Permit(Lease lease, int64_t count) : lease_(std::move(lease)), count_(count) {}

 private:
  Lease lease_;
  int64_t count_ = 0;
};

}  // namespace redlatch

#endif  // REDLATCH_PERMIT_H_
