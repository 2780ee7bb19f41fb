// A hold on a lock, and the handle that releases it.
#ifndef REDLATCH_LEASE_H_
#define REDLATCH_LEASE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/awaitable.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/fencing_token.h"

namespace redlatch {

namespace internal {
class HoldOwner;
class HoldState;
}  // namespace internal

// A view of one hold. Give copies of it to the code that works under the hold. They keep neither
// the lock held nor the client connected. Thread-safe.
//
//   the hold is   valid()   lost()           remaining()
//   held          true      not requested    until the local deadline
//   released      false     not requested    zero
//   lost          false     requested        zero
//   none          false     not requested    zero
//
// A hold is lost if its lease could not be renewed in time, or if another process forced its
// release. Its local deadline comes 1 % + 2 ms before the server would give the lock away, and the
// loss is declared a twentieth of the lease, at most 10 ms, before that. If an owner has a
// reentrant lock several times, all its leases belong to one hold.
class REDLATCH_EXPORT Hold {
 public:
  Hold() = default;  // none
  Hold(const Hold&) = default;
  Hold(Hold&&) = default;
  Hold& operator=(const Hold&) = default;
  Hold& operator=(Hold&&) = default;
  ~Hold();

  // True means that no other owner has the lock at this moment. The process may be paused between
  // this answer and the action that it guards. Only a fencing token protects against that.
  bool valid() const;

  // How long the hold lasts if it is not renewed again. After a handover from another client, this
  // is less than two seconds at first: see AcquireOptions::whole_lease.
  absl::Duration remaining() const;

  FencingToken fencing_token() const { return token_; }
  // The token of the lock with that name. A MultiLock whose locks are taken one after the other has
  // one token per lock, and none for all of them; every other hold has a single token, whatever the
  // name.
  FencingToken fencing_token(std::string_view name) const;

  // How many replicas confirmed the last acquisition or renewal; 0 without LockOptions::acks.
  int acked_by() const;

  // Fires when the hold is lost, even while the network hangs; never on a release.
  std::stop_token lost() const;

  // Fires when a waiter of this client or of another one wants the lock, if the lock's options set
  // `tell_if_wanted` or `on_wanted`. Otherwise the token never fires, and its stop_possible() is
  // false.
  std::stop_token wanted() const;

  // For the library.
  Hold(std::shared_ptr<internal::HoldState> state, FencingToken token);
  const std::shared_ptr<internal::HoldState>& state() const { return state_; }

 private:
  std::shared_ptr<internal::HoldState> state_;
  FencingToken token_;
};

// A hold that ends with this handle: the result of Acquire().
//
//   absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = 5s});
//   if (!lease.ok()) return lease.status();
//   Work(lease->lost());
//   return lease->Release();  // or leave it to the destructor, which cannot report a loss
//
//   the lease is     Release()     Extend(), StayTaken()    destructor
//   held             releases      manual: prolongs         releases, without waiting
//   released, empty  OK            kAborted, or             nothing
//                                  kFailedPrecondition
//   lost             kAborted      kAborted                 nothing
//
// It may outlive the lock object and the client, and may be moved and destroyed on any thread. All
// other methods may be called by several threads at the same time.
class REDLATCH_EXPORT Lease {
 public:
  Lease() = default;  // empty
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  // If the release fails, the client repeats it in the background until the lease would have ended.
  ~Lease();

  // These are the same as for Hold. A lease that ReleaseAsync() is releasing is no longer valid.
  bool valid() const { return state_ != State::kReleased && hold_.valid(); }
  absl::Duration remaining() const {
    return state_ == State::kReleased ? absl::ZeroDuration() : hold_.remaining();
  }
  FencingToken fencing_token() const { return hold_.fencing_token(); }
  FencingToken fencing_token(std::string_view name) const { return hold_.fencing_token(name); }
  int acked_by() const { return hold_.acked_by(); }
  std::stop_token lost() const { return hold_.lost(); }
  std::stop_token wanted() const { return hold_.wanted(); }
  // A view of the hold, which does not release it.
  const Hold& hold() const { return hold_; }

  // OK: the lock was held until now. Every further call returns the same.
  //   kAborted       the hold was lost before: the data that it protected may have been disturbed
  //   kUnavailable   the server did not answer; call again, or leave it to the background
  absl::Status Release();

  // Like Release(), but does not wait: the callback gets the result. If the lease has been
  // released, or another thread is in Release(), the result is OK. The callback runs where
  // RedisLockBase::AcquireAsync() says; the callback of an empty Lease runs on a thread of its own.
  using ReleaseCallback = absl::AnyInvocable<void(absl::Status) &&>;
  void ReleaseAsync(ReleaseCallback callback);
  // The same for coroutines: absl::Status released = co_await lease.ReleaseAwaitable();
  // The awaitable owns the hold from here on, and releases it even if it is never awaited.
  Awaitable<absl::Status> ReleaseAwaitable() {
    return {{}, [its = GiveAway()](const std::stop_token&, ReleaseCallback told) mutable {
              its.ReleaseAsync(std::move(told));
            }};
  }

  // Prolongs a manual hold so that it lasts for that long from now. It never shortens a hold.
  // Returns kAborted if the hold is over, and kFailedPrecondition if the client renews it.
  absl::Status Extend(Duration lease);

  // Does for this hold what AcquireOptions::at_least does for a new one. OK means that the server
  // has confirmed it. The time counts from the grant, whose time is the fencing token, in
  // microseconds since 1970 by the server's clock. Returns kAborted if the hold is over, and
  // kInvalidArgument if this lock cannot stay taken. After any other error, the name may or may not
  // stay taken.
  absl::Status StayTaken(Duration at_least);

  // For the library.
  Lease(std::shared_ptr<internal::HoldOwner> owner, uint64_t id, Hold hold);

 private:
  enum class State : uint8_t { kHeld, kReleasing, kReleased, kLost };

  void End() noexcept;
  // Moves the hold into a new lease; this one is then released.
  Lease GiveAway();
  // Marks the lease as released, if it is held. Returns the state before.
  State Take();

  Hold hold_;
  std::shared_ptr<internal::HoldOwner> owner_;
  uint64_t id_ = 0;
  std::atomic<State> state_{State::kReleased};
};

}  // namespace redlatch

#endif  // REDLATCH_LEASE_H_
