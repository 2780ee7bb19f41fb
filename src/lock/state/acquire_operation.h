#ifndef REDLATCH_SRC_LOCK_STATE_ACQUIRE_OPERATION_H_
#define REDLATCH_SRC_LOCK_STATE_ACQUIRE_OPERATION_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"
#include "src/base/clock.h"
#include "src/lock/state/effects.h"
#include "src/lock/state/lock_state.h"
#include "src/lock/state/request.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// Of a server that does not answer: since when, and why.
struct Silence {
  base::Instant since = base::Instant::Infinite();
  absl::Status why;
};

// One call that wants a lock: its way through the machine, from its beginning to its outcome. Pure:
// whoever drives it calls Resume() with what has happened, and does what that says:
//
//   kRun     run send() until then; Resume() with its answer
//   kSleep   sleep until then, or until the waker is called; Resume()
//   kDone    the outcome is in waiter()
//
// A waker that is called with `through` says that the outcome is there: no Resume() is needed.
//
// All but ListenPatience(), send(), and waiter() once it is done, needs the machine's mutex. It is
// to be driven until it is done.
class AcquireOperation {
 public:
  struct Call {
    uint64_t thread = 0;
    const void* object = nullptr;  // the lock object, or null
    Face face = Face::kStatus;
    Terms terms;
    std::shared_ptr<const LockOptions> options;
    FencingToken write_token;  // as a Waiter's
    base::Instant began;
    absl::Duration wait = absl::InfiniteDuration();
    Silence met;  // so far, where the wait began elsewhere
    absl::Duration command_timeout;
    absl::Duration unreachable_after;
    Waker* waker = nullptr;
  };
  explicit AcquireOperation(Call call);
  AcquireOperation(const AcquireOperation&) = delete;
  AcquireOperation& operator=(const AcquireOperation&) = delete;

  // For how long at most a subscription may be waited for: half of the time, since the rest is for
  // asking, which can succeed without.
  absl::Duration ListenPatience(base::Instant now) const;
  // There is no subscription, for that reason. False: the call has failed.
  bool GoOnUnsubscribed(absl::Status why, base::Instant now, LockState& state);

  struct Event {
    const Result* result = nullptr;  // to send(), if that was run
    bool stopped = false;            // its stop token fired
    bool gone = false;               // its lock object is gone
  };
  struct Next {
    enum class Kind : uint8_t { kRun, kSleep, kDone };
    Kind kind = Kind::kDone;
    base::Instant until;
  };
  Next Resume(const Event& event, base::Instant now, LockState& state, Effects& effects);
  const Request& request() const { return *request_; }

  // Something happened that Resume() is to see. False: it does not sleep, or is being woken.
  bool NeedsWake();
  // It is about to sleep without being told to. False: it is decided.
  bool Park();
  // It slept until the time was over. True: a call of the waker is on its way, and must be awaited.
  bool Overslept();
  bool granted() const { return waiter_.state == Waiter::State::kGranted; }

  Waiter& waiter() { return waiter_; }

 private:
  void Ask(const Event& event, base::Instant now, LockState& state, Effects& effects);
  void TakeAnswer(const Result& result, base::Instant now, LockState& state, Effects& effects);
  void GiveUpInTime(const Event& event, base::Instant now, LockState& state, Effects& effects);
  void BoundSilence(base::Instant sent, const LockState& state) {
    gives_up_at_ = state.GivesUpAt(waiter_, sent);
  }

  const absl::Duration command_timeout_;
  const absl::Duration unreachable_after_;
  // Three moments end it: its wait is over; the server has had long enough to say why; and, of an
  // endless one, the server was silent for too long.
  const base::Instant deadline_;
  base::Instant answered_by_;
  base::Instant gives_up_at_ = base::Instant::Infinite();
  Waiter waiter_;
  bool asked_ = false;
  std::optional<Request> request_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_ACQUIRE_OPERATION_H_
