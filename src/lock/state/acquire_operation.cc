#include "src/lock/state/acquire_operation.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kListenTimeout = absl::Milliseconds(500);

Patience PatienceOf(absl::Duration wait) {
  if (wait <= absl::ZeroDuration()) return Patience::kNone;
  return wait < absl::InfiniteDuration() ? Patience::kBounded : Patience::kEndless;
}

}  // namespace

AcquireOperation::AcquireOperation(Call call)
    : command_timeout_(call.command_timeout),
      unreachable_after_(call.unreachable_after),
      deadline_(call.began + std::max(call.wait, absl::ZeroDuration())),
      answered_by_(deadline_ + PatienceForAnswer(call.wait, call.command_timeout)) {
  waiter_.thread = call.thread;
  waiter_.object = call.object;
  waiter_.face = call.face;
  waiter_.patience = PatienceOf(call.wait);
  waiter_.terms = std::move(call.terms);
  waiter_.options = std::move(call.options);
  waiter_.write_token = call.write_token;
  waiter_.began = call.began;
  waiter_.silent_since = call.met.since;
  waiter_.failure = std::move(call.met.why);
  waiter_.waker = call.waker;
}

absl::Duration AcquireOperation::ListenPatience(base::Instant now) const {
  base::Instant end = answered_by_;
  if (waiter_.patience == Patience::kEndless) {
    const base::Instant silent = std::max(std::min(waiter_.silent_since, now), waiter_.began);
    end = std::min(end, silent + unreachable_after_ + kAnswerGrace);
  } else if (waiter_.patience == Patience::kNone) {
    end = std::min(end, now + kAnswerGrace);  // no message is for one that does not wait
  }
  return std::min(kListenTimeout, (end - now) / 2);
}

bool AcquireOperation::GoOnUnsubscribed(absl::Status why, base::Instant now, LockState& state) {
  waiter_.failure = std::move(why);
  if (absl::IsUnavailable(waiter_.failure)) {
    waiter_.silent_since = std::min(waiter_.silent_since, now);
    return true;
  }
  waiter_.state = Waiter::State::kFailed;
  state.OnRefused(waiter_.state);
  return false;
}

void AcquireOperation::Ask(const Event& event, base::Instant now, LockState& state,
                           Effects& effects) {
  const bool room = state.MakeRoomForWaiter();
  if (!event.gone && room) return state.Acquire(waiter_, now, effects);
  if (!room) waiter_.failure = base::NoMemory();
  waiter_.state = room ? Waiter::State::kStopped : Waiter::State::kFailed;
  state.OnRefused(waiter_.state);
}

void AcquireOperation::TakeAnswer(const Result& result, base::Instant now, LockState& state,
                                  Effects& effects) {
  if (result.unreachable()) {
    waiter_.silent_since = std::min(waiter_.silent_since, request_->sent);
    waiter_.failure = base::Unshared(result.failed()->why);
  }
  state.OnResult(*request_, result, now, effects);
}

void AcquireOperation::GiveUpInTime(const Event& event, base::Instant now, LockState& state,
                                    Effects& effects) {
  const bool waited =
      deadline_ <= now && waiter_.patience != Patience::kNone && state.KnowsWhy(waiter_);
  if (event.stopped || event.gone) {
    state.GiveUp(waiter_, Waiter::State::kStopped, now, effects);
  } else if (gives_up_at_ <= now) {
    state.GiveUp(waiter_, Waiter::State::kBusy, now, effects);
    answered_by_ = now;  // that a server which is silent is told now helps nobody
  } else if (answered_by_ <= now || waited) {
    state.GiveUp(waiter_, Waiter::State::kBusy, now, effects);
  }
  if (waiter_.state != Waiter::State::kWaiting) {
    answered_by_ = std::min(answered_by_, now + kAnswerGrace);
  }
}

AcquireOperation::Next AcquireOperation::Resume(const Event& event, base::Instant now,
                                                LockState& state, Effects& effects) {
  using State = Waiter::State;
  LockState::Unpark(waiter_);
  if (!std::exchange(asked_, true)) Ask(event, now, state, effects);
  if (event.result != nullptr) TakeAnswer(*event.result, now, state, effects);
  request_.reset();
  if (waiter_.state == State::kWaiting && waiter_.awaits_wake) state.OnWoken(waiter_, now, effects);
  if (waiter_.state == State::kGranted && waiter_.hold != 0 && !state.Valid(waiter_.hold, now)) {
    // The thread did not run for longer than the lease: as if it had never been granted.
    state.Expire(now, effects);
    waiter_.view.reset();
    waiter_.state = State::kWaiting;
    Ask(event, now, state, effects);
  }
  if (waiter_.state != State::kWaiting) return {};

  const bool due = state.next_request_at() <= now;
  BoundSilence(due ? now : base::Instant::Infinite(), state);
  GiveUpInTime(event, now, state, effects);
  // Else it is the renewer's, who waits for as long as a command may take.
  const bool hasty = answered_by_ < now + command_timeout_ && state.IsInTheWay(waiter_);
  if (now < answered_by_ && !hasty) request_ = state.NextRequest(now);
  if (due || request_) {  // else nothing has changed since
    BoundSilence(request_ ? request_->sent : base::Instant::Infinite(), state);
  }
  if (request_) {
    return {.kind = Next::Kind::kRun,
            .until = std::min({answered_by_, gives_up_at_, now + command_timeout_})};
  }
  if (waiter_.state != State::kWaiting) return {};
  LockState::Park(waiter_);
  return {.kind = Next::Kind::kSleep,
          .until = std::min(now < deadline_ ? deadline_ : answered_by_, gives_up_at_)};
}

bool AcquireOperation::NeedsWake() { return LockState::NeedsWake(waiter_); }

bool AcquireOperation::Park() {
  if (waiter_.state != Waiter::State::kWaiting) return false;
  LockState::Park(waiter_);
  return true;
}

bool AcquireOperation::Overslept() {
  const bool being_woken = waiter_.wake_pending;
  LockState::Unpark(waiter_);
  return being_woken;
}

}  // namespace redlatch::internal
