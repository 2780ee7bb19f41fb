#include "src/lock/operation_task.h"

#include <algorithm>
#include <utility>

#include "src/base/mutex.h"
#include "src/lock/about.h"
#include "src/lock/client_core.h"
#include "src/lock/lock_table.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {

OperationTask::~OperationTask() = default;

bool OperationTask::Step(unsigned events, base::Instant now) {
  if ((events & kStopped) != 0) {
    gone_ = gone_ || !stop().stop_requested();
    if (script_ != nullptr) script_->Hurry(now + kAnswerGrace);
  }
  // The client ends: an acquisition ends now, a release at its deadline.
  const bool over = (events & kOver) != 0;
  bool ends = over || ((events & kEnding) != 0 && operation().may_fail());
  gone_ = gone_ || ends;
  bool woken = (events & kWoken) != 0;
  for (;;) {
    Operation::Event event{.stopped = stop().stop_requested(), .gone = gone_};
    if (!Execute(event, ends, now) && !ends) return true;
    {
      // A Wake() that has begun must still find the task.
      const base::MutexLock lock(entry_->mu);
      if (!std::exchange(woken, false) && operation().Overslept() && !over) {
        action_ = kResume;
        due_ = base::Instant::Infinite();
        return true;
      }
    }
    action_ = driver_.core().Resume(*entry_, operation(), event);
    ends = false;  // the next action is still executed
    script_.reset();
    confirmation_.reset();
    const bool sleeps = action_.kind == Operation::Action::Kind::kSleep;
    if (action_.kind == Operation::Action::Kind::kDone || over) return End();
    if (sleeps) {
      due_ = action_.until;
      return true;
    }
  }
}

// Returns false if the action is not over.
bool OperationTask::Execute(Operation::Event& event, bool ends, base::Instant now) {
  using Kind = Operation::Action::Kind;
  switch (action_.kind) {
    case Kind::kSubscribe:
      return Subscribe(event, ends);
    case Kind::kRun:
      return Run(event, ends, now);
    case Kind::kConfirm:
      return Confirm(event, ends, now);
    case Kind::kSleep:
    case Kind::kDone:
      return true;
  }
  return true;
}

bool OperationTask::Subscribe(Operation::Event& event, bool ends) {
  subscribed_as_ = absl::OkStatus();
  if (!ends && !event.stopped && !event.gone) {
    base::Instant again;
    subscribed_as_ = driver_.Listen(entry_->keys.main(), again);
    if (absl::IsUnavailable(subscribed_as_) && base::Now() < action_.until) {
      due_ = std::min(action_.until, again);
      return false;
    }
  }
  event.subscribed_as = &subscribed_as_;
  return true;
}

bool OperationTask::Run(Operation::Event& event, bool ends, base::Instant now) {
  if (script_ == nullptr) {
    if (ends) return true;
    script_ = std::make_unique<EventScript>(driver_, *this, *entry_, operation().request(),
                                            action_.until);
  }
  // Usually this sends the request. An immediate failure is handled like a later one.
  result_ = script_->Step(now);
  if (!result_) {
    due_ = script_->due();
    return false;
  }
  event.result = &*result_;
  return true;
}

bool OperationTask::Confirm(Operation::Event& event, bool ends, base::Instant now) {
  if (confirmation_ == nullptr && !ends) {
    due_ = action_.until;
    confirmation_ = driver_.RunInBatch(*this, *entry_, operation().request(), due_);
    return false;
  }
  if (!ends && !confirmation_->HasArrived() && now < action_.until) return false;
  const bool arrived = confirmation_ != nullptr && confirmation_->HasArrived();
  result_ = arrived ? std::move(confirmation_->ran) : NoResult();
  event.result = &*result_;
  return true;
}

AcquireTask::AcquireTask(EventDriver& driver, Entry& entry, AcquireCall call,
                         LockHandle::Finish finish, LockHandle::Elsewhere elsewhere,
                         EventDriver::Whose whose)
    : OperationTask(
          driver, entry, kResume,
          call.wait > absl::ZeroDuration() ? *call.since + call.wait : base::Instant::Infinite()),
      call_(std::move(call)),
      finish_(std::move(finish)),
      elsewhere_(std::move(elsewhere)),
      whose_(whose) {}

// Created at the first step: a call that does not wait gives the server its time from then on.
Operation& AcquireTask::operation() {
  if (!operation_) {
    if (call_.wait <= absl::ZeroDuration()) call_.since = base::Now();
    operation_.emplace(call_, LockHandle::EnvironmentOf(driver_.core(), thread_, *this));
  }
  return *operation_;
}

bool AcquireTask::End() {
  ClientCore& core = driver_.core();
  Waiter& waiter = operation_->waiter();
  // These readers may not be joined, so the call continues with others.
  if (waiter.state == Waiter::State::kElsewhere && !gone()) {
    call_.silence = {.since = waiter.silent_since, .why = std::move(waiter.failure)};
    auto next = elsewhere_(*entry_);
    if (next.ok()) {
      Entry& entry = const_cast<Entry&>((*next)->entry());
      LockTable::Refer(entry);
      core.lock_table().Unrefer(*std::exchange(entry_, &entry));
      // This may be the last reference to the client, so it is dropped where that may be destroyed.
      driver_.Complete([handle = *std::move(next)] {}, EventDriver::Whose::kOwn);
      operation_.reset();
      Wake();
      return true;
    }
    waiter.state = Waiter::State::kFailed;
    waiter.failure = next.status();
  }
  absl::StatusOr<OwnedHold> result;
  if (waiter.state != Waiter::State::kGranted) {
    result = About(core, *entry_, LockHandle::Failure(*entry_, waiter, call_.wait));
  } else if (entry_->type->holds()) {
    result = absl::CancelledError("its client is gone");
    if (std::shared_ptr<ClientCore> alive = core.weak_from_this().lock()) {
      std::shared_ptr<LockHandle> handle = LockHandle::To(std::move(alive), *entry_);
      absl::StatusOr<HoldRef> hold = handle->Outcome(*operation_, call_.wait);
      result = hold.ok() ? absl::StatusOr<OwnedHold>(OwnedHold{std::move(handle), *std::move(hold)})
                         : hold.status();
    } else {
      core.Feed(*entry_, [&](LockState& state, Effects& effects) {
        operation_->GiveBack(base::Now(), state, effects);
      });
      result = About(core, *entry_, result.status());
    }
  } else {
    result = OwnedHold();
  }
  if (entry_->type->holds() && core.observed()) {
    core.TellAcquiredLater(*entry_, result.ok() ? result->held.token : FencingToken(),
                           base::Now() - operation_->began(), result.status());
  }
  driver_.Complete(std::move(finish_)(std::move(result)), whose_);
  core.lock_table().Unrefer(*entry_);
  return false;
}

bool ReleaseTask::End() {
  ClientCore& core = driver_.core();
  const Released& released = operation_.released();
  if (released.kind == Released::Kind::kUnconfirmed) {
    if (operation_.deadline() <= base::Now()) core.NoteSilence();
    // No caller will ask for the outcome. The background repeats the release.
    core.Feed(*entry_, [&](LockState& state, Effects&) { operation_.Forget(state); });
  }
  if (core.observed()) core.TellReleasedLater(*entry_, released);
  if (then_) driver_.Complete(std::move(then_)(StatusOf(core, *entry_, released)));
  core.lock_table().Unrefer(*entry_);
  return false;
}

}  // namespace redlatch::internal
