#include "src/lock/operation_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/lock/client_core.h"
#include "src/lock/lock_table.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

// If a request misses its deadline, its batch says why a moment later, unless it has not begun.
constexpr absl::Duration kBatchGrace = absl::Milliseconds(5);

}  // namespace

struct OperationTask::Running {
  Request request;
  bool confirms;  // it is a renewal that replicas must confirm
  base::Instant until;
  base::Instant try_at;
  Result result;
  base::Backoff backoff{absl::Milliseconds(2), absl::Milliseconds(100)};
  EventReplyPtr reply = nullptr;  // while it is in flight
  bool in_batch = false;

  base::Instant due() const {
    if (reply == nullptr) return std::min(until, try_at);
    return in_batch ? until + kBatchGrace : until;
  }
};

OperationTask::OperationTask(EventDriver& driver, Entry& entry, Operation::Action action,
                             base::Instant due)
    : driver_(driver), entry_(&entry), action_(action), due_(due) {}

OperationTask::~OperationTask() = default;

bool OperationTask::Step(unsigned events, base::Instant now) {
  if ((events & kStopped) != 0) {
    gone_ = gone_ || !stop().stop_requested();
    if (running_ != nullptr) running_->until = std::min(running_->until, now + kAnswerGrace);
  }
  // The client ends: an acquisition ends now, a release at its deadline.
  const bool over = (events & kOver) != 0;
  bool ends = over || ((events & kEnding) != 0 && operation().ends_with_client());
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
    running_.reset();
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
    case Kind::kConfirm:
      return Run(event, ends, now);
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
    subscribed_as_ = driver_.Listen(*entry_, again);
    if (absl::IsUnavailable(subscribed_as_) && base::Now() < action_.until) {
      due_ = std::min(action_.until, again);
      return false;
    }
  }
  event.subscribed_as = &subscribed_as_;
  return true;
}

bool OperationTask::Run(Operation::Event& event, bool ends, base::Instant now) {
  if (running_ == nullptr && ends) return true;
  if (running_ == nullptr) BeginRun(now);
  Running& run = *running_;
  bool over = run.reply != nullptr && TakeReply(now);
  if (!over && run.reply == nullptr) {
    // Usually this sends the request. An immediate failure is handled like a later one.
    over = run.until <= now || (run.try_at <= now && !Send());
  }
  due_ = run.due();
  if (!over) return false;
  event.result = &run.result;
  return true;
}

void OperationTask::BeginRun(base::Instant now) {
  ClientCore& core = driver_.core();
  const bool confirms = action_.kind == Operation::Action::Kind::kConfirm;
  Result unsent{.what = Failed{.why = absl::UnavailableError(
                                   absl::StrCat("the command could not be sent to ",
                                                core.server(entry_->keys.main()), " in time")),
                               .not_sent = true}};
  running_.reset(new Running{.request = operation().request(),
                             .confirms = confirms,
                             .until = action_.until,
                             .try_at = now,
                             .result = std::move(unsent)});
}

// Returns false if the request cannot be sent.
bool OperationTask::Send() {
  Running& run = *running_;
  run.in_batch = run.confirms || driver_.core().is_quorum();
  if (!run.in_batch) {
    auto posted = driver_.Post(*this, *entry_, run.request);
    if (posted.ok()) {
      run.reply = *std::move(posted);
      return true;
    }
    run.result = {.what = Failed{.why = posted.status(), .not_sent = true}};
    if (!absl::IsUnavailable(posted.status())) return false;
    run.in_batch = true;
  }
  run.reply = driver_.RunInBatch(*this, *entry_, run.request, run.until);
  return true;
}

// Returns true if the request has its final result.
bool OperationTask::TakeReply(base::Instant now) {
  Running& run = *running_;
  if (!run.reply->HasArrived()) {
    if (now < run.due()) return false;
    driver_.NoteReply(/*in_time=*/false);
    run.result = {.what = Failed{.why = absl::UnavailableError(absl::StrCat(
                                     driver_.core().server(entry_->keys.main()),
                                     " did not answer in time (the command was sent and "
                                     "may have been executed)")),
                                 .may_have_executed = true}};
    return true;
  }
  driver_.NoteReply(/*in_time=*/true);
  run.result = driver_.core().TakeReply(*entry_, run.request, run.reply->posted);
  run.reply.reset();
  if (run.until <= now || !MayPass()) return true;
  if (run.in_batch) {
    run.try_at = now + run.backoff.Next();
  } else {
    run.in_batch = true;
    run.reply = driver_.RunInBatch(*this, *entry_, run.request, run.until);
  }
  return false;
}

// Returns true if the request was not executed, and may succeed later or elsewhere.
bool OperationTask::MayPass() const {
  const Failed* const failed = running_->result.failed();
  if (failed == nullptr || failed->may_have_executed || running_->confirms ||
      driver_.core().is_quorum()) {
    return false;
  }
  const bool redirected = failed->not_sent && !running_->in_batch;
  if (!redirected && !absl::IsUnavailable(failed->why)) return false;
  const base::MutexLock lock(entry_->mu);
  return entry_->state.IsWanted(running_->request);
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
    auto view = std::make_shared<HoldState>();  // a grant must not need memory
    operation_.emplace(call_, LockHandle::EnvironmentOf(driver_.core(), thread_, *this));
    operation_->waiter().view = std::move(view);
  }
  return *operation_;
}

bool AcquireTask::End() {
  ClientCore& core = driver_.core();
  Waiter& waiter = operation_->waiter();
  // These readers may not be joined, so the call continues with others.
  if (waiter.state == Waiter::State::kElsewhere && !gone()) {
    call_.silence = {.since = waiter.silent_since, .why = std::move(waiter.failure)};
    auto next = base::WithMemory([this] { return elsewhere_(*entry_); });
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
      auto handle = base::WithMemory([&] { return std::make_shared<LockHandle>(alive, *entry_); });
      absl::StatusOr<HoldRef> hold = handle->Outcome(*operation_, call_.wait);
      result = hold.ok() ? absl::StatusOr<OwnedHold>(OwnedHold{std::move(handle), *std::move(hold)})
                         : hold.status();
    } else {
      core.FeedWithRoom(*entry_, [&](LockState& state, base::Instant now, Effects& effects) {
        operation_->GiveBack(now, state, effects);
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

bool ScriptTask::End() {
  ClientCore& core = driver_.core();
  told_->outcome = std::move(operation_.outcome());
  if (!told_->outcome.ok()) told_->outcome = About(core, *entry_, told_->outcome.status());
  driver_.Complete([its = std::move(told_)] { std::move(its->then)(std::move(its->outcome)); },
                   EventDriver::Whose::kOwn);
  core.lock_table().Unrefer(*entry_);
  return false;
}

}  // namespace redlatch::internal
