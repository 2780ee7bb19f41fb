// Permits of a semaphore, and the handle that gives them back.
#ifndef REDLATCH_PERMIT_H_
#define REDLATCH_PERMIT_H_

#include <cstdint>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/awaitable.h"
#include "redlatch/export.h"
#include "redlatch/lease.h"

namespace redlatch {

// What Semaphore::Acquire() returns: so many permits, until it goes. It may outlive the semaphore
// object and the client, and be moved and destroyed on any thread. Its methods may be called from
// several threads at the same time, but for move and destruction.
//
//   state       valid()   lost()           remaining()                count()
//   held        true      not requested    until the local deadline   what was asked for
//   released    false     not requested    zero                       the same
//   lost        false     requested        zero                       the same
//   empty       false     not requested    zero                       0
//
// All its permits are one hold: they are renewed, lost and given back together. Loss is told as it
// is of a Lease. There is no fencing token: holders of permits are not one after another, so that
// no order among them could tell a store whom to refuse.
class REDLATCH_EXPORT Permit {
 public:
  Permit() = default;
  Permit(Permit&& other) noexcept
      : lease_(std::move(other.lease_)), count_(std::exchange(other.count_, 0)) {}
  Permit& operator=(Permit&& other) noexcept {
    if (this == &other) return *this;
    lease_ = std::move(other.lease_);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  // Gives them back, as ~Lease() does.
  ~Permit() = default;

  int64_t count() const { return count_; }

  // True: the permits count as taken at this moment.
  bool valid() const { return lease_.valid(); }
  // Until the local deadline as it stands; renewal moves it.
  absl::Duration remaining() const { return lease_.remaining(); }
  // Fires when the permits are lost, also while the network hangs; never on a release.
  std::stop_token lost() const { return lease_.lost(); }

  // OK: they were held until now, and are free or already somebody else's; the same for every
  // further call. kAborted: they were lost before. kUnavailable: the server did not answer; call
  // again, or leave it to the background.
  absl::Status Release() { return lease_.Release(); }

  // As those of Lease.
  void ReleaseAsync(Lease::ReleaseCallback callback) { lease_.ReleaseAsync(std::move(callback)); }
  Awaitable<absl::Status> ReleaseAwaitable() { return lease_.ReleaseAwaitable(); }

  // Those acquired with a `lease` only: at least so long from now on.
  absl::Status Extend(absl::Duration lease) { return lease_.Extend(lease); }

 private:
  friend class Semaphore;
  Permit(Lease lease, int64_t count) : lease_(std::move(lease)), count_(count) {}

  Lease lease_;
  int64_t count_ = 0;
};

}  // namespace redlatch

#endif  // REDLATCH_PERMIT_H_
