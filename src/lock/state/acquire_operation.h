#ifndef REDLATCH_SRC_LOCK_STATE_ACQUIRE_OPERATION_H_
#define REDLATCH_SRC_LOCK_STATE_ACQUIRE_OPERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/lock/state/operation.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// Since when, and why, a server has not answered.
struct Silence {
  base::Instant since = base::Instant::Infinite();
  absl::Status why;
};

// One call that wants a lock: what it asks for, and how it can be ended early.
struct AcquireCall {
  Face face = Face::kStatus;
  Terms terms;
  absl::Duration wait = absl::InfiniteDuration();
  std::optional<base::Instant> since;  // when the wait began, if that was before the operation
  Silence silence;                     // that the wait has met before, at another lock state
  std::stop_token stop;
  std::shared_ptr<const LockOptions> options;
  const void* object = nullptr;  // the lock object, or null
  // Set when the lock object is gone; null if there is none.
  const base::Atomic<bool>* gone = nullptr;
  FencingToken write_token;  // as in Waiter
  GrantId write_grant = 0;   // of a reader: the write grant that its thread also has
};

// If a server fails, or too few replicas confirm a grant, the operation asks for a new grant until
// these times. They are set when the first grant is there.
struct Confirmation {
  base::Instant faults_until;
  base::Instant acks_until;
  base::Instant again_at;
  base::Backoff backoff{absl::Milliseconds(5), absl::Milliseconds(200)};
  absl::Status why;    // why the latest grant was given back
  bool again = false;  // the lock may be asked for again
  uint64_t given = 0;  // the hold that is being given back
};

// One call that wants a lock, from its beginning to its outcome:
//
//   phase         does                                      until
//   subscribing   makes messages reach this client          they do, or half of its time is over
//   asking        asks the server, sleeps, is woken         the waiter is decided
//   confirming    has replicas confirm the grant            they do (done), or too few do
//   giving back   releases the grant                        the server answers
//   pausing       sleeps, to ask for the lock again         its time comes
//
// The outcome is in waiter().
class AcquireOperation final : public Operation {
 public:
  // What the driver adds to the call.
  struct Environment {
    uint64_t thread = 0;
    base::Instant now;
    absl::Duration command_timeout;
    absl::Duration round_trip;  // a short one
    absl::Duration unreachable_after;
    Waker* waker = nullptr;
  };
  AcquireOperation(const AcquireCall& call, const Environment& environment);

  Action Resume(const Event& event, base::Instant now, LockState& state, Effects& effects) override;
  bool NeedsWake() override { return LockState::NeedsWake(waiter_); }
  // The outcome is there, so that Resume() returns kDone.
  bool decided() const { return waiter_.state != Waiter::State::kWaiting; }
  bool Overslept() override;

  // After the end: gives the lock back if it was granted.
  void GiveBack(base::Instant now, LockState& state, Effects& effects);
  Waiter& waiter() { return waiter_; }
  base::Instant began() const { return waiter_.began; }

 private:
  enum class Phase : uint8_t { kBegins, kSubscribing, kAsking, kConfirming, kGivingBack, kPausing };

  absl::Duration SubscribeTimeout(base::Instant now) const;
  bool EndSubscribing(const absl::Status& status, base::Instant now, LockState& state,
                      Effects& effects);
  Action AskAndWait(const Event& event, base::Instant now, LockState& state, Effects& effects);
  Action Confirm(base::Instant now, LockState& state, Effects& effects);
  Action EndConfirming(const Result* result, base::Instant now, LockState& state, Effects& effects);
  Action EndGivingBack(const Result* result, base::Instant now, LockState& state, Effects& effects);
  Action Fail(absl::Status why);
  Action Sleep(base::Instant until);

  uint64_t EndHold(base::Instant now, LockState& state, Effects& effects);
  void GiveUpInTime(const Event& event, base::Instant now, LockState& state, Effects& effects);
  void BoundSilence(base::Instant sent, const LockState& state) {
    gives_up_at_ = state.GivesUpAt(waiter_, sent);
  }

  const PackedDuration command_timeout_;
  const absl::Duration unreachable_after_;
  // Three deadlines can end it: its wait is over; the server has had enough time to say why; or an
  // endless wait has met too much silence.
  const base::Instant deadline_;
  const base::Instant ends_;  // the deadline, plus time for the server's answer
  base::Instant answered_by_ = ends_;
  base::Instant gives_up_at_ = base::Instant::Infinite();
  base::Instant subscribing_since_;
  base::Instant listens_at_;  // not sooner, since it has failed before
  Waiter waiter_;
  Phase phase_ = Phase::kBegins;
  bool asked_ = false;

  std::optional<Confirmation> confirmation_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_ACQUIRE_OPERATION_H_
