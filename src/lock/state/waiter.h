// The calls that want a lock, the holds that they get, and the consequences of an event.
#ifndef REDLATCH_SRC_LOCK_STATE_WAITER_H_
#define REDLATCH_SRC_LOCK_STATE_WAITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"
#include "src/base/clock.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

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

// Which holder makes the lock busy for a call.
enum class BusyWith : uint8_t {
  kOthers,      // another client, as far as this client knows
  kThisClient,  // a hold of the call's own client
  kThisThread,  // a hold that the calling thread acquired
};

// A call that wants the lock. LockState links the waiters of its queue.
struct Waiter {  // members are ordered to leave no gaps: a client may have very many waiters
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
  bool native = false;  // the lock may be acquired natively

  // The outcome.
  State state = State::kWaiting;
  BusyWith busy_with = BusyWith::kOthers;  // if it is kBusy

  // The waker is called only if the waiter is parked and there is news for it.
  bool parked = false;
  bool wake_pending = false;
  bool awaits_wake = false;  // used by LockState only
  Waker* waker = nullptr;

  Terms terms;
  // How long this client may serve its threads after it has waited, or while others wait.
  PackedDuration turn;
  std::shared_ptr<const LockOptions> options;
  FencingToken write_token;  // of a reader that also writes: the token of its write hold
  base::Instant began;       // when the call began

  // Since when the server has not answered this call; `failure` says why.
  base::Instant silent_since = base::Instant::Infinite();

  // More of the outcome.
  uint64_t hold = 0;
  FencingToken token;
  std::shared_ptr<HoldState> view;
  base::Instant not_before;  // when the token may first be used
  absl::Status failure;      // while it waits: the server's problem, if one is known

  // Used by LockState only.
  base::Instant since;
  Waiter* previous = nullptr;
  Waiter* next = nullptr;
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

// A thread's hold, from the grant to the release or loss. It counts reentry, which the server does
// not see.
struct LocalHold {
  uint64_t id = 0;
  uint64_t thread = 0;
  uint32_t depth = 0;        // of all levels
  uint32_t std_depth = 0;    // levels by lock()
  bool unconfirmed = false;  // Confirm() asks for it; if it is lost before, its thread never had it
  bool wanted = false;       // it was told that another waiter wants the lock
  FencingToken token;
  base::Instant began;
  std::shared_ptr<const LockOptions> options;
  std::shared_ptr<HoldState> view;  // created on first access
};

// Why holds were lost. The text is composed outside the mutex, where memory may be waited for.
struct LossReason {
  const char* what = "";
  const char* more = "";
  absl::Status why = {};
  std::string Text() const { return absl::StrCat(what, more, why.message()); }
};

// Something to tell the observer; or, with kWanted, to tell the user of a hold that another waiter
// wants the lock.
struct Notice {
  enum class Kind : uint8_t { kRenewed, kAtRisk, kRecovered, kReleaseFailed, kWanted };
  Kind kind = Kind::kRenewed;
  FencingToken token;
  absl::Duration remaining = absl::ZeroDuration();
  absl::Status why;
  std::shared_ptr<const LockOptions> options = nullptr;  // of the hold that is wanted
  std::shared_ptr<HoldState> view = nullptr;
};

// The consequences of an event, except requests, which NextRequest() returns.
struct Effects {
  absl::InlinedVector<Waiter*, 4> wakes;
  absl::InlinedVector<LocalHold, 1> lost;  // the holds of one grant
  LossReason lost_because;
  absl::InlinedVector<Notice, 2> notices;
  // The options of holds that ended. They are destroyed outside the mutex, since they may own a
  // user's functions.
  absl::InlinedVector<std::shared_ptr<const LockOptions>, 1> ended;
};

// The known outcome of a release.
struct Released {
  enum class Kind : uint8_t {
    kDone,  // nothing is left to do: an inner level, passed on inside the client, or confirmed
    kUnconfirmed,  // the server has not confirmed it; `failure` says why
    kLost,         // the hold was lost before
    kNotHeld,      // the thread has no hold
    kRefused,      // the server refused it; `failure` says why
  };
  Kind kind = Kind::kDone;
  uint64_t hold = 0;
  FencingToken token;
  absl::Status failure;
};

// A thread's hold, under a grant of its client.
struct HoldRef {
  uint64_t hold = 0;  // 0 if there is no hold
  FencingToken token;
  // When a hold is looked up: its depth. 0 if it was lost and is not yet unlocked.
  uint32_t depth = 0;
  GrantId grant = 0;                     // 0 if it was lost
  std::shared_ptr<HoldState> view = {};  // set if the user can see the hold
  base::Instant not_before = {};         // when the token may first be used
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_WAITER_H_
