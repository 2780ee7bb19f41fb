#include "src/lock/state/acquire_operation.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kSubscribeTimeout = absl::Milliseconds(500);

WaitLimit LimitOf(absl::Duration wait) {
  if (wait <= absl::ZeroDuration()) return WaitLimit::kNone;
  return wait < absl::InfiniteDuration() ? WaitLimit::kBounded : WaitLimit::kEndless;
}

}  // namespace

AcquireOperation::AcquireOperation(const AcquireCall& call, const Environment& environment)
    : command_timeout_(environment.command_timeout),
      unreachable_after_(environment.unreachable_after),
      deadline_(call.since.value_or(environment.now) + std::max(call.wait, absl::ZeroDuration())),
      ends_(deadline_ + AnswerTimeout(call.wait, environment.command_timeout)) {
  waiter_.thread = environment.thread;
  waiter_.object = call.object;
  waiter_.face = call.face;
  waiter_.wait_limit = LimitOf(call.wait);
  waiter_.terms = call.terms;
  // A reader that also writes reads beside its write only, so its grant serves no other hold.
  if (call.options != nullptr && call.write_grant == 0) {
    waiter_.turn = PackedDuration(ContendedTurn(*call.options, environment.round_trip));
  }
  waiter_.options = call.options;
  waiter_.write_token = call.write_token;
  waiter_.began = call.since.value_or(environment.now);
  waiter_.silent_since = call.silence.since;
  if (!call.silence.why.ok()) waiter_.failure = base::Unshared(call.silence.why);
  waiter_.waker = environment.waker;
}

auto AcquireOperation::Resume(const Event& event, base::Instant now, LockState& state,
                              Effects& effects) -> Action {
  LockState::Unpark(waiter_);
  if (event.messages_arrive && waiter_.terms.cacheable) state.OnSubscribed();
  switch (phase_) {
    case Phase::kBegins:
      subscribing_since_ = now;
      if (!event.subscribed) {
        phase_ = Phase::kSubscribing;
        return {.kind = Action::Kind::kSubscribe, .until = now + SubscribeTimeout(now)};
      }
      break;
    case Phase::kSubscribing:
      if (event.subscribed_as != nullptr && !decided() &&
          !EndSubscribing(*event.subscribed_as, now, state, effects)) {
        return {};
      }
      state.OnListening(now);
      break;
    case Phase::kConfirming:
      return EndConfirming(event.result, now, state, effects);
    case Phase::kGivingBack:
      return EndGivingBack(event.result, now, state, effects);
    case Phase::kPausing:
      if (event.stopped || event.gone) return Fail(confirmation_->why);
      if (now < confirmation_->again_at) return Sleep(confirmation_->again_at);
      break;
    case Phase::kAsking:
      break;
  }
  phase_ = Phase::kAsking;
  return AskAndWait(event, now, state, effects);
}

// Half of the time at most: the rest is for asking, which can succeed without messages.
absl::Duration AcquireOperation::SubscribeTimeout(base::Instant now) const {
  base::Instant end = answered_by_;
  if (waiter_.wait_limit == WaitLimit::kEndless) {
    const base::Instant silent = std::max(std::min(waiter_.silent_since, now), waiter_.began);
    end = std::min(end, silent + unreachable_after_ + kAnswerGrace);
  } else if (waiter_.wait_limit == WaitLimit::kNone) {
    end = std::min(end, now + kAnswerGrace);  // a call that does not wait gets no message
  }
  return std::min(kSubscribeTimeout, (end - now) / 2);
}

// Returns false if the call has failed. If no message can reach this client for now, it polls.
bool AcquireOperation::EndSubscribing(const absl::Status& status, base::Instant now,
                                      LockState& state, Effects& effects) {
  if (status.ok()) return true;
  waiter_.failure = base::Unshared(status);
  if (absl::IsUnavailable(status)) {
    listens_at_ = now + kSubscribeTimeout;
    if (!asked_) waiter_.silent_since = std::min(waiter_.silent_since, subscribing_since_);
    return true;
  }
  asked_ ? state.GiveUp(waiter_, Waiter::State::kFailed, now, effects)
         : state.Refuse(waiter_, Waiter::State::kFailed);
  return false;
}

void AcquireOperation::GiveUpInTime(const Event& event, base::Instant now, LockState& state,
                                    Effects& effects) {
  const bool waited =
      deadline_ <= now && waiter_.wait_limit != WaitLimit::kNone && state.KnowsWhy(waiter_);
  if (event.stopped || event.gone) {
    state.GiveUp(waiter_, Waiter::State::kStopped, now, effects);
  } else if (gives_up_at_ <= now) {
    state.GiveUp(waiter_, Waiter::State::kBusy, now, effects);
    answered_by_ = now;  // waiting for a silent server would only take time
  } else if (answered_by_ <= now || waited) {
    state.GiveUp(waiter_, Waiter::State::kBusy, now, effects);
  }
  if (waiter_.state != Waiter::State::kWaiting) {
    answered_by_ = std::min(answered_by_, now + kAnswerGrace);
  }
}

auto AcquireOperation::AskAndWait(const Event& event, base::Instant now, LockState& state,
                                  Effects& effects) -> Action {
  using State = Waiter::State;
  if (!std::exchange(asked_, true)) {
    event.gone ? state.Refuse(waiter_, State::kStopped) : state.Acquire(waiter_, now, effects);
  }
  if (event.result != nullptr) {
    if (event.result->unreachable()) {
      waiter_.silent_since = std::min(waiter_.silent_since, request_->sent);
      waiter_.failure = base::Unshared(event.result->failed()->why);
    }
    state.OnResult(*request_, *event.result, now, effects);
  }
  request_.reset();
  if (waiter_.state == State::kWaiting && waiter_.awaits_wake) {
    state.OnWoken(waiter_, now, effects);
  }
  if (waiter_.state == State::kGranted && waiter_.hold != 0 && !state.Valid(waiter_.hold, now)) {
    // The thread did not run for longer than the lease, so the grant counts as never made.
    state.Expire(now, effects);
    waiter_.view.reset();
    waiter_.state = State::kWaiting;
    asked_ = false;
    return AskAndWait({.stopped = event.stopped, .gone = event.gone}, now, state, effects);
  }
  if (waiter_.state == State::kWaiting) {
    const bool due = state.next_request_at() <= now;
    BoundSilence(due ? now : base::Instant::Infinite(), state);
    if (event.stopped || event.gone || std::min({deadline_, answered_by_, gives_up_at_}) <= now) {
      GiveUpInTime(event, now, state, effects);
    }
    // If the call would end before a slow server answers, the background sends the request, since
    // it can wait for the whole command timeout.
    const bool hasty = answered_by_ < now + command_timeout_.get() && state.IsInTheWay(waiter_);
    if (now < answered_by_ && !hasty) request_ = state.NextRequest(now);
    if (due || request_) {  // otherwise nothing has changed
      BoundSilence(request_ ? request_->sent : base::Instant::Infinite(), state);
    }
    if (request_) {
      return {.kind = Action::Kind::kRun,
              .until = std::min({answered_by_, gives_up_at_, now + command_timeout_.get()})};
    }
    // The server may have refused the subscription meanwhile: another attempt says why.
    const bool must_listen = state.MustListen(waiter_, event.listens) || !event.subscribed;
    if (waiter_.state == State::kWaiting && must_listen && listens_at_ <= now) {
      subscribing_since_ = now;
      phase_ = Phase::kSubscribing;
      return {.kind = Action::Kind::kSubscribe, .until = now + SubscribeTimeout(now)};
    }
    if (waiter_.state == State::kWaiting) {
      const base::Instant until =
          std::min(now < deadline_ ? deadline_ : answered_by_, gives_up_at_);
      return Sleep(must_listen ? std::min(until, listens_at_) : until);
    }
  }
  const bool granted = waiter_.state == State::kGranted;
  if (granted) return waiter_.terms.acks.any() ? Confirm(now, state, effects) : Action();
  const bool again = confirmation_ && waiter_.state != State::kElsewhere;
  return again ? Fail(std::move(confirmation_->why)) : Action();
}

auto AcquireOperation::Fail(absl::Status why) -> Action {
  waiter_.state = Waiter::State::kFailed;
  waiter_.failure = std::move(why);
  return {};
}

// ---- A grant that replicas must confirm. Without them it may be lost with its server, so no
// thread gets it before.

auto AcquireOperation::Confirm(base::Instant now, LockState& state, Effects& effects) -> Action {
  if (!confirmation_) {
    confirmation_.emplace();
    confirmation_->faults_until =
        ends_.is_infinite() ? now + unreachable_after_ : ends_ - kAnswerGrace;
    confirmation_->acks_until = std::min(ends_ - kAnswerGrace, now + waiter_.options->acks.timeout);
  }
  state.Expire(now, effects);
  request_ = state.Confirm(waiter_.hold, ends_ - kAnswerGrace / 2, now);
  if (!request_) return EndConfirming(nullptr, now, state, effects);
  phase_ = Phase::kConfirming;
  return {.kind = Action::Kind::kConfirm, .until = ends_};
}

auto AcquireOperation::EndConfirming(const Result* result, base::Instant now, LockState& state,
                                     Effects& effects) -> Action {
  const Failed* const failed = result != nullptr ? result->failed() : nullptr;
  if (result != nullptr && failed == nullptr) state.OnResult(*request_, *result, now, effects);
  request_.reset();
  if (state.Valid(waiter_.hold, now) && failed == nullptr) return {};
  Confirmation& confirmation = *confirmation_;
  confirmation.why =
      failed == nullptr
          ? base::MakeStatus(absl::StatusCode::kUnavailable, "it was lost before it was confirmed")
          : base::MakeStatus(failed->why.code(), "given back: ", failed->why.message());
  confirmation.again_at = now + confirmation.backoff.Next();
  const bool passes = failed == nullptr || absl::IsUnavailable(failed->why);
  const bool too_few = failed != nullptr && failed->too_few;
  confirmation.again = passes && confirmation.again_at < (too_few ? confirmation.acks_until
                                                                  : confirmation.faults_until);
  // The lock is free when the call returns, unless the server does not answer.
  confirmation.given = EndHold(now, state, effects);
  if (now < ends_) request_ = state.NextRequestOf(confirmation.given, now);
  if (!request_) return EndGivingBack(nullptr, now, state, effects);
  phase_ = Phase::kGivingBack;
  return {.kind = Action::Kind::kRun, .until = std::min(ends_, now + command_timeout_.get())};
}

auto AcquireOperation::EndGivingBack(const Result* result, base::Instant now, LockState& state,
                                     Effects& effects) -> Action {
  Confirmation& confirmation = *confirmation_;
  if (request_) state.OnResult(*request_, result != nullptr ? *result : NoResult(), now, effects);
  request_.reset();
  state.Forget(confirmation.given);  // the background repeats a release that is not confirmed
  if (!confirmation.again) return Fail(std::move(confirmation.why));
  // It asks again, as if it had never been granted.
  waiter_.state = Waiter::State::kWaiting;
  waiter_.silent_since = base::Instant::Infinite();
  waiter_.failure = absl::OkStatus();
  waiter_.view.reset();
  answered_by_ = ends_;
  gives_up_at_ = base::Instant::Infinite();
  asked_ = false;
  phase_ = Phase::kPausing;
  return Sleep(std::max(now, confirmation.again_at));
}

void AcquireOperation::GiveBack(base::Instant now, LockState& state, Effects& effects) {
  if (waiter_.hold != 0) state.Forget(EndHold(now, state, effects));
}

uint64_t AcquireOperation::EndHold(base::Instant now, LockState& state, Effects& effects) {
  waiter_.face == Face::kStd ? state.Unlock(waiter_.thread, now, effects)
                             : state.Release(waiter_.hold, now, effects);
  return std::exchange(waiter_.hold, 0);
}

// ---- Sleeping.

auto AcquireOperation::Sleep(base::Instant until) -> Action {
  LockState::Park(waiter_);
  return {.kind = Action::Kind::kSleep, .until = until};
}

bool AcquireOperation::Overslept() {
  const bool being_woken = waiter_.wake_pending;
  LockState::Unpark(waiter_);
  return being_woken;
}

}  // namespace redlatch::internal
