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

// What an acquisition asks of the server. A grant serves waiters of equal terms only.
struct Terms {
  absl::Duration lease = absl::ZeroDuration();
  bool manual = false;     // never renewed
  bool whole = false;      // a claim is not enough: the lease, before a thread gets it
  bool cacheable = false;  // LockOptions::cache_for
  base::AcksWanted acks;   // it counts only when those have it
  // Of a semaphore: how many are wanted, of how many that there should be.
  uint32_t permits = 1;
  uint32_t capacity = 0;
  std::shared_ptr<const std::vector<std::string>> args = nullptr;  // of a user's own class

  friend bool operator==(const Terms& a, const Terms& b) {
    return a.lease == b.lease && a.manual == b.manual && a.whole == b.whole &&
           a.cacheable == b.cacheable && a.acks == b.acks && a.permits == b.permits &&
           a.capacity == b.capacity &&
           (a.args == b.args || (a.args && b.args && *a.args == *b.args));
  }
};

// How long a client may serve itself: while no other client is known to wait, and after it has
// waited or while others do.
inline absl::Duration FreeTurn(const LockOptions& options) {
  return options.turn.value_or(absl::Milliseconds(5));
}
inline absl::Duration ContendedTurn(const LockOptions& options) {
  return options.turn.value_or(absl::ZeroDuration());
}

enum class Face : uint8_t { kStd, kStatus };

// How long a waiter waits.
enum class Patience : uint8_t {
  kNone,     // takes what there is, or is refused, as soon as the server says which
  kBounded,  // until a deadline that its thread watches over
  kEndless,  // for as long as the server is not unreachable for too long
};

// Wakes the driver of a waiter's operation.
class Waker {
 public:
  virtual void Wake() = 0;

 protected:
  ~Waker() = default;
};

// One call that wants the lock, of an Acquisition. The machine links those that wait.
struct Waiter {
  enum class State : uint8_t {
    kWaiting,
    kGranted,    // `hold`, `token`, `not_before` are set; of a Face::kStatus, `view` too
    kBusy,       // out of time; or not patient, and the lock is somebody else's
    kDeadlock,   // its thread holds the lock already
    kElsewhere,  // a grant of its own is needed: this one may not be joined
    kStopped,    // its stop token fired, or its lock object is gone
    kFailed,     // `failure` is set
  };

  // The request.
  uint64_t thread = 0;
  const void* object = nullptr;
  Face face = Face::kStatus;
  Patience patience = Patience::kEndless;
  Terms terms;
  std::shared_ptr<const LockOptions> options;
  FencingToken write_token;  // of a reader that writes too: its own write is the last before it
  base::Instant began;       // when the call did

  // Since when, as far as the call has seen, the server has not answered it; `failure` tells why.
  base::Instant silent_since = base::Instant::Infinite();

  // The outcome.
  State state = State::kWaiting;
  uint64_t hold = 0;
  FencingToken token;
  std::shared_ptr<HoldState> view;
  base::Instant not_before;  // the token must not be used sooner
  absl::Status failure;      // before: what is wrong with the server, where that is known

  // One that is parked is woken when there is something for it to see.
  Waker* waker = nullptr;
  bool parked = false;
  bool wake_pending = false;

  // The machine's own.
  base::Instant since;
  Waiter* previous = nullptr;
  Waiter* next = nullptr;
  bool awaits_wake = false;
};

// The local queue: waiters linked in their order.
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
