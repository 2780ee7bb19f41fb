#ifndef REDLATCH_SRC_LOCK_STATE_WAITER_H_
#define REDLATCH_SRC_LOCK_STATE_WAITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/lock/state/hold_state.h"

namespace redlatch::internal {

// What a waiter asks the server for. A grant serves only waiters with equal terms.
struct Terms {
  absl::Duration lease = absl::ZeroDuration();
  bool manual = false;     // never renewed
  bool whole = false;      // a claim is not enough: the thread needs the whole lease
  bool cacheable = false;  // LockOptions::cache_for
  base::AcksWanted acks;   // the grant counts only once these have it
  // A semaphore's permits that are wanted, and its capacity.
  uint32_t permits = 1;
  uint32_t capacity = 0;
  std::shared_ptr<const std::vector<std::string>> args = nullptr;  // of a user's own lock type

  friend bool operator==(const Terms& a, const Terms& b) {
    return a.lease == b.lease && a.manual == b.manual && a.whole == b.whole &&
           a.cacheable == b.cacheable && a.acks == b.acks && a.permits == b.permits &&
           a.capacity == b.capacity &&
           (a.args == b.args || (a.args && b.args && *a.args == *b.args));
  }
};

// How long a client may serve its own threads: while no other client is known to wait, and after
// this client has waited or while others wait.
inline absl::Duration FreeTurn(const LockOptions& options) {
  return options.turn.value_or(absl::Milliseconds(5));
}
inline absl::Duration ContendedTurn(const LockOptions& options) {
  return options.turn.value_or(absl::ZeroDuration());
}

enum class Face : uint8_t { kStd, kStatus };

// How long a waiter waits.
enum class WaitLimit : uint8_t {
  kNone,     // takes the lock or is refused, as soon as the server has answered
  kBounded,  // until a deadline, which its thread observes
  kEndless,  // until the server has been unreachable for too long
};

// Wakes the driver of a waiter's operation.
class Waker {
 public:
  virtual void Wake() = 0;

 protected:
  ~Waker() = default;
};

// A call that wants the lock. LockState links the waiters of its queue.
struct Waiter {
  enum class State : uint8_t {
    kWaiting,
    kGranted,    // `hold`, `token` and `not_before` are set, and `view` if `face` is kStatus
    kBusy,       // out of time, or impatient and the lock is taken
    kDeadlock,   // its thread has the lock already
    kElsewhere,  // it needs a grant of its own, since it may not join this one
    kStopped,    // its stop token fired, or its lock object is gone
    kFailed,     // `failure` is set
  };

  // What the call asks for.
  uint64_t thread = 0;
  const void* object = nullptr;
  Face face = Face::kStatus;
  WaitLimit wait_limit = WaitLimit::kEndless;
  Terms terms;
  std::shared_ptr<const LockOptions> options;
  FencingToken write_token;  // of a reader that also writes: the token of its write hold
  base::Instant began;       // when the call began

  // Since when the server has not answered this call; `failure` says why.
  base::Instant silent_since = base::Instant::Infinite();

  // The outcome.
  State state = State::kWaiting;
  uint64_t hold = 0;
  FencingToken token;
  std::shared_ptr<HoldState> view;
  base::Instant not_before;  // when the token may first be used
  absl::Status failure;      // while it waits: the server's problem, if one is known

  // The waker is called only if the waiter is parked and there is news for it.
  Waker* waker = nullptr;
  bool parked = false;
  bool wake_pending = false;

  // Used by LockState only.
  base::Instant since;
  Waiter* previous = nullptr;
  Waiter* next = nullptr;
  bool awaits_wake = false;
};

// The local queue: waiters in the order in which they came.
class WaiterQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  bool has_several() const { return head_ != tail_; }
  Waiter* head() const { return head_; }

  void Append(Waiter& waiter) {
    waiter.previous = tail_;
    waiter.next = nullptr;
    (tail_ == nullptr ? head_ : tail_->next) = &waiter;
    tail_ = &waiter;
  }

  void Remove(Waiter& waiter) {
    (waiter.previous == nullptr ? head_ : waiter.previous->next) = waiter.next;
    (waiter.next == nullptr ? tail_ : waiter.next->previous) = waiter.previous;
  }

 private:
  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_WAITER_H_
