#include "src/lock/async_acquisition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/lock/about.h"
#include "src/lock/async_release.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {
AsyncAcquisition::AsyncAcquisition(EventDriver& driver, Entry& entry, Want want,
                                   LockHandle::Finish finish, LockHandle::Elsewhere elsewhere,
                                   EventDriver::Whose whose)
    : driver_(driver),
      core_(driver.core()),
      entry_(&entry),
      want_(std::move(want)),
      finish_(std::move(finish)),
      elsewhere_(std::move(elsewhere)),
      began_(want_.since.value_or(base::Now())),
      whose_(whose) {
  MakeAcquisition();
}

AsyncAcquisition::~AsyncAcquisition() = default;

void AsyncAcquisition::MakeAcquisition() {
  operation_.emplace(AcquireOperation::Call{.thread = thread_,
                                            .object = want_.object,
                                            .face = Face::kStatus,
                                            .terms = want_.terms,
                                            .options = want_.options,
                                            .write_token = want_.write_token,
                                            .began = began_,
                                            .wait = want_.wait,
                                            .met = std::exchange(want_.silence, {}),
                                            .command_timeout = core_.command_timeout(),
                                            .unreachable_after = core_.options().unreachable_after,
                                            .waker = this});
}

bool AsyncAcquisition::Step(unsigned events, base::Instant now) {
  if ((events & kStopped) != 0) gone_ = gone_ || !want_.stop.stop_requested();
  if ((events & (kEnding | kOver)) != 0) {
    End(now);
    return phase_ != Phase::kDone;
  }
  switch (phase_) {
    case Phase::kBegins:
      if (want_.wait <= absl::ZeroDuration()) {  // the server's time to answer begins now
        began_ = now;
        MakeAcquisition();
      }
      phase_ = Phase::kListens;
      listens_since_ = now;
      deaf_at_ = now + operation_->ListenPatience(now);
      [[fallthrough]];
    case Phase::kListens:
      if (Listen()) Resume(nullptr, false, now);
      break;
    case Phase::kRuns:
      if ((events & kStopped) != 0) script_->Hurry(now + kAnswerGrace);
      if (const std::optional<Result> result = script_->Step(now)) {
        Resume(&*result, false, now);
      } else {
        due_ = script_->due();
      }
      break;
    case Phase::kSleeps:
      if ((events & kThrough) != 0) {
        Decided();
      } else {
        Resume(nullptr, (events & kWoken) != 0, now);
      }
      break;
    case Phase::kConfirms:
      if (confirmed_->HasArrived()) {
        Confirmed(confirmed_->ran);
      } else if (due_ <= now) {
        Confirmed(NoResult());
      }
      break;
    case Phase::kPauses:
      if (stopped()) {
        Finish(About(core_, *entry_, confirmation_->why()));
      } else if (due_ <= now) {
        MakeAcquisition();
        Resume(nullptr, false, now);
      }
      break;
    case Phase::kDone:
      break;
  }
  return phase_ != Phase::kDone;
}

// True: it can go on, or has failed and will say so.
bool AsyncAcquisition::Listen() {
  redis::ServerGroup& server_group = core_.server_group();
  const std::string_view key = entry_->keys.main();
  if (server_group.subscribed(key) || stopped()) return true;
  base::Instant again;
  absl::Status unsubscribed = driver_.Listen(key, again);
  if (unsubscribed.ok()) return true;
  const base::Instant then = base::Now();
  if (absl::IsUnavailable(unsubscribed) && then < deaf_at_) {
    due_ = std::min(deaf_at_, again);
    return false;
  }
  {
    const base::MutexLock lock(entry_->mu);
    if (operation_->GoOnUnsubscribed(std::move(unsubscribed), listens_since_, entry_->state))
      return true;
  }
  Decided();
  return false;
}

void AsyncAcquisition::Resume(const Result* result, bool woken, base::Instant now) {
  std::optional<AcquireOperation::Next> resumed;
  core_.Feed(*entry_, [&](LockState& state, Effects& effects) {
    // A call of the waker that is on its way must find the task here.
    if (!woken && operation_->waiter().wake_pending) return;
    if (want_.terms.cacheable && core_.server_group().subscribed_now(entry_->keys.main()))
      state.OnSubscribed();
    const AcquireOperation::Event event{
        .result = result, .stopped = stopped() && !gone_, .gone = gone_};
    resumed = operation_->Resume(event, now, state, effects);
  });
  due_ = base::Instant::Infinite();
  if (!resumed) return;
  const AcquireOperation::Next next = *resumed;
  script_.reset();
  due_ = next.until;
  switch (next.kind) {
    case AcquireOperation::Next::Kind::kDone:
      return Decided();
    case AcquireOperation::Next::Kind::kSleep:
      phase_ = Phase::kSleeps;
      return;
    case AcquireOperation::Next::Kind::kRun:
      phase_ = Phase::kRuns;
      script_ =
          std::make_unique<AsyncScript>(driver_, *this, *entry_, operation_->request(), next.until);
      // Most often it is sent here; what it says at once is no different from what it says later.
      if (const std::optional<Result> failed = script_->Step(now)) {
        Resume(&*failed, false, now);
      } else {
        due_ = script_->due();
      }
      return;
  }
}

void AsyncAcquisition::Decided() {
  Waiter& waiter = operation_->waiter();
  if (waiter.state == Waiter::State::kElsewhere) return GoElsewhere();
  absl::StatusOr<HoldRef> held = LockHandle::OutcomeOf(core_, *entry_, waiter, want_.wait);
  if (held.ok() && want_.terms.acks.any()) {
    if (!confirmation_) {
      confirmation_.emplace(core_, began_, want_.wait, want_.options->ack_timeout);
    }
    unconfirmed_ = *std::move(held);
    return Confirm();
  }
  if (!held.ok() && confirmation_) return Finish(About(core_, *entry_, confirmation_->why()));
  Finish(std::move(held));
}

// These readers may not be joined: it goes on with others.
void AsyncAcquisition::GoElsewhere() {
  Waiter& waiter = operation_->waiter();
  want_.silence = {.since = waiter.silent_since, .why = std::move(waiter.failure)};
  auto next = elsewhere_(*entry_);
  if (!next.ok()) return Finish(next.status());
  Entry& entry = const_cast<Entry&>((*next)->entry());
  LockTable::Refer(entry);
  core_.machines().Unrefer(*std::exchange(entry_, &entry));
  // It may be the last that keeps the client: it goes where that may go.
  driver_.Complete([kept = *std::move(next)] {}, EventDriver::Whose::kOwn);
  MakeAcquisition();
  phase_ = Phase::kListens;
  due_ = listens_since_ = base::Now();
  deaf_at_ = due_ + operation_->ListenPatience(due_);
}

// As LockSession::Confirmed().
void AsyncAcquisition::Confirm() {
  const Request* const request = confirmation_->Ask(core_, *entry_, unconfirmed_.hold);
  if (request == nullptr) return Confirmed({});
  phase_ = Phase::kConfirms;
  due_ = confirmation_->end();
  confirmed_ = AsyncReplyPtr(new AsyncReply(driver_, *this));
  core_.acked_renewals().Post(
      *entry_, *request,
      [letter = confirmed_.get()](Result result) {
        letter->ran = std::move(result);
        letter->Arrive();
      },
      due_);
}

void AsyncAcquisition::Confirmed(const Result& result) {
  const bool confirmed = confirmation_->Hear(core_, *entry_, result);
  confirmed_.reset();
  if (confirmed) return Finish(std::move(unconfirmed_));
  Released begun;
  std::optional<Request> release;
  core_.Feed(*entry_, [&, now = base::Now()](LockState& state, Effects& effects) {
    begun = state.Release(unconfirmed_.hold, now, effects);
    if (begun.kind == Released::Kind::kUnderWay) release = state.NextRequestOf(begun.hold, now);
  });
  LockTable::Refer(*entry_);
  driver_.Begin(std::make_unique<AsyncRelease>(driver_, *entry_, std::move(begun),
                                               std::move(release), nullptr),
                entry_->keys.main());
  due_ = confirmation_->Again();
  phase_ = Phase::kPauses;
  if (due_.is_infinite() || stopped()) Finish(About(core_, *entry_, confirmation_->why()));
}

// The client goes: whatever was granted goes back, and all else is cancelled at the server.
void AsyncAcquisition::End(base::Instant now) {
  gone_ = true;
  if (phase_ == Phase::kConfirms) {
    confirmed_.reset();
    Finish(std::move(unconfirmed_));
  } else if (phase_ == Phase::kPauses) {
    Finish(About(core_, *entry_, confirmation_->why()));
  } else {
    Resume(nullptr, false, now);
  }
}

void AsyncAcquisition::Finish(absl::StatusOr<HoldRef> held) {
  phase_ = Phase::kDone;
  due_ = base::Instant::Infinite();
  script_.reset();
  const base::Instant now = base::Now();
  absl::StatusOr<OwnedHold> result;
  if (!held.ok()) {
    result = held.status();
  } else if (!entry_->type->holds()) {
    result = OwnedHold();
  } else {
    absl::Status refused = absl::CancelledError("its client is gone");
    std::shared_ptr<LockHandle> handle;
    if (std::shared_ptr<ClientCore> core = core_.weak_from_this().lock()) {
      handle = LockHandle::To(std::move(core), *entry_);
      refused = handle->CheckLease(want_.terms.lease);  // as LockSession::Acquire()
    }
    if (refused.ok()) {
      result = OwnedHold{std::move(handle), *std::move(held)};
    } else {
      core_.Feed(*entry_, [&](LockState& state, Effects& effects) {
        state.Release(held->hold, now, effects);
        state.Forget(held->hold);
        state.OnTooManyCached(now);
      });
      result = About(core_, *entry_, refused);
    }
  }
  if (entry_->type->holds() && core_.observed()) {
    core_.TellAcquiredLater(*entry_, result.ok() ? result->held.token : FencingToken(),
                            now - began_, result.status());
  }
  driver_.Complete(std::move(finish_)(std::move(result)), whose_);
  core_.machines().Unrefer(*entry_);
}

}  // namespace redlatch::internal
