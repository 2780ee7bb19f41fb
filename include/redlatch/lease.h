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
#include "redlatch/export.h"
#include "redlatch/fencing_token.h"

namespace redlatch {

namespace internal {
class HoldOwner;
class HoldState;
}  // namespace internal

// A view of one hold: copy it to wherever the work is done. It keeps nothing: neither the lock
// held, nor the client connected.
//
//   state       valid()   lost()           remaining()
//   held        true      not requested    until the local deadline
//   released    false     not requested    zero
//   lost        false     requested        zero
//   of nothing  false     not requested    zero
//
// A hold is lost when its lease could not be renewed in time, or somebody forced its release. Its
// local deadline lies a margin (1 % + 2 ms) before the moment at which the server would give the
// lock to another; and so that its holder knows by then, it is declared lost a little before that
// deadline (a twentieth of the lease, at most 10 ms).
//
// Where an owner has taken a reentrant lock several times, all its leases are of one hold, which is
// released with the last of them. Thread-safe.
class REDLATCH_EXPORT Hold {
 public:
  Hold() = default;  // of nothing: neither valid nor lost
  Hold(const Hold&) = default;
  Hold(Hold&&) = default;
  Hold& operator=(const Hold&) = default;
  Hold& operator=(Hold&&) = default;
  ~Hold();

  // True: no other owner has the lock at this moment. Ask right before what must be exclusive, and
  // remember that a process may be paused between the answer and the act: a fencing token is
  // safe against that too.
  bool valid() const;

  // Until the local deadline as it stands; renewal moves it. If another client has handed over the
  // lock, this is less than two seconds for the first 100 ms: see AcquireOptions::whole_lease.
  absl::Duration remaining() const;

  FencingToken fencing_token() const { return token_; }
  // That of the lock of that name. A MultiLock of locks that lie apart has one for each, and no
  // other; every other hold has but one, whatever the name.
  FencingToken fencing_token(std::string_view name) const;

  // How many replicas had the hold when it was last acquired or renewed; 0 unless LockOptions asks
  // for that.
  int acked_by() const;

  // Fires when the hold is lost, also while the network hangs; never on a release.
  std::stop_token lost() const;

 private:
  friend class Lease;
  friend class MultiLock;
  friend class RedisLockBase;
  Hold(std::shared_ptr<internal::HoldState> view, FencingToken token);

  std::shared_ptr<internal::HoldState> view_;
  FencingToken token_;
};

// A Hold that ends with this handle: what Acquire() returns.
//
//   absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
//   if (!lease.ok()) return lease.status();
//   Work(lease->lost());
//   return lease->Release();  // or leave it to the destructor, which cannot say that it was lost
//
// It may outlive the lock object and the client, and be moved and destroyed on any thread. Its
// methods may be called from several threads at the same time, but for move and destruction.
class REDLATCH_EXPORT Lease : public Hold {
 public:
  Lease() = default;  // of nothing; Release() is OK
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  // Releases, and does not wait for the server; see RedisLockBase. If the release fails, the client
  // goes on trying in the background until the lease would have ended by itself.
  ~Lease();

  // OK: the lock was held until now and is free, or already somebody else's. The same again for
  // every further call.
  //   kAborted       the hold was lost before: what it protected may have been disturbed
  //   kUnavailable   the server did not answer; call again, or leave it to the background
  absl::Status Release();

  // Release() that does not wait: the callback gets the result. That is OK if the lease has been
  // released already, or another thread is in Release(). For where the callback runs, see
  // RedisLockBase::AcquireAsync(); for an empty Lease, on a thread of its own. After kUnavailable
  // the client keeps trying in the background.
  using ReleaseCallback = absl::AnyInvocable<void(absl::Status) &&>;
  void ReleaseAsync(ReleaseCallback callback);
  // The same for coroutines: absl::Status released = co_await lease.ReleaseAwaitable();
  // The awaitable owns the hold from here on, and releases it even if it is never awaited.
  Awaitable<absl::Status> ReleaseAwaitable() {
    return {{}, [its = GiveAway()](const std::stop_token&, ReleaseCallback told) mutable {
              its.ReleaseAsync(std::move(told));
            }};
  }

  // Manual holds only: at least so long from now on; it never shortens. kAborted where the hold is
  // gone, kFailedPrecondition where it is renewed by itself.
  absl::Status Extend(absl::Duration lease);

 private:
  friend class MultiLock;
  friend class RedisLockBase;
  friend class Semaphore;
  Lease(std::shared_ptr<internal::HoldOwner> holder, uint64_t id,
        std::shared_ptr<internal::HoldState> view, FencingToken token);
  void End() noexcept;
  // Moves the hold into a new lease; this one is then released.
  Lease GiveAway();

  std::shared_ptr<internal::HoldOwner> holder_;
  uint64_t id_ = 0;
  enum class State : uint8_t { kHeld, kReleasing, kReleased, kLost };
  // Marks the lease as released, if it is held. Returns the state before.
  State Take() {
    State before = State::kHeld;
    state_.compare_exchange_strong(before, State::kReleased);
    return before;
  }
  std::atomic<State> state_{State::kReleased};
};

}  // namespace redlatch

#endif  // REDLATCH_LEASE_H_
