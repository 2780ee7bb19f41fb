// How long a thread waits: for a lock that is somebody's, and for a server that does not answer.
#include <algorithm>

#include "src/base/status.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

void LockMachine::FailIf(Patience patience, base::Instant begun_by, const absl::Status& why,
                         Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (waiter->patience != patience || begun_by < waiter->began) continue;
    queue_.Remove(*waiter);
    waiter->failure = base::Unshared(why);
    Decide(*waiter, why.ok() ? Waiter::State::kBusy : Waiter::State::kFailed, effects);
  }
}

void LockMachine::FailAll(const absl::Status& why, Effects& effects) {
  for (Patience each : {Patience::kNone, Patience::kBounded, Patience::kEndless}) {
    FailIf(each, base::Instant::Infinite(), why, effects);
  }
}

void LockMachine::RefuseImpatient(Effects& effects) {
  FailIf(Patience::kNone, base::Instant::Infinite(), absl::OkStatus(), effects);
}

void LockMachine::Heard(base::Instant now) {
  unreachable_since_.reset();
  heard_at_ = now;
}

// A bid, sent then, went unanswered.
void LockMachine::Unreachable(base::Instant sent, const absl::Status& why, base::Instant now,
                              Effects& effects) {
  last_failure_ = base::Unshared(why);
  if (!unreachable_since_) {
    unreachable_since_ = sent;
    for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) {
      unreachable_since_ = std::min(*unreachable_since_, SilentSince(*waiter));
      // From here on it must see to it that it does not wait for too long.
      if (waiter->patience == Patience::kEndless) Wake(*waiter, effects);
    }
  }
  if (config_.unreachable_after <= now - *unreachable_since_) {
    FailIf(Patience::kEndless, now - config_.unreachable_after, last_failure_, effects);
  }
}

// Infinite() where the server has answered since.
base::Instant LockMachine::SilentSince(const Waiter& waiter) const {
  return heard_at_ < waiter.silent_since ? waiter.silent_since : base::Instant::Infinite();
}

bool LockMachine::IsInTheWay(const Waiter& waiter) const {
  if (!unreachable_since_) return false;
  for (const Waiter* other = queue_.head(); other != nullptr; other = other->next) {
    if (other != &waiter && other->patience != Patience::kNone) return true;
  }
  return false;
}

bool LockMachine::KnowsWhy(const Waiter& waiter) const {
  return unreachable_since_ || (grant_ && !joined()) || (pursuit_ && pursuit_->queued) ||
         waiter.since <= taken_at_;
}

base::Instant LockMachine::GivesUpAt(const Waiter& waiter, base::Instant sent) const {
  if (waiter.patience != Patience::kEndless) return base::Instant::Infinite();
  const auto after = [&](base::Instant silent) {
    return std::max(silent, waiter.began) + config_.unreachable_after;
  };
  const base::Instant met = SilentSince(waiter);
  if (unreachable_since_) return after(std::min(*unreachable_since_, met));
  base::Instant asked = sent;
  if (grant_) {
    if (joined()) asked = std::min(asked, waiter.since);  // whether it may join
  } else if (pursuit_ && pursuit_->in_flight && !pursuit_->attempts.empty()) {
    asked = std::min(asked, pursuit_->attempts.back().sent);
  }
  if (asked == base::Instant::Infinite()) return asked;
  // Where nothing went unanswered yet, a healthy server is given a moment.
  return std::min(after(asked) + kAnswerGrace, after(met));
}

void LockMachine::GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects) {
  if (waiter.state != Waiter::State::kWaiting) return;
  queue_.Remove(waiter);
  waiter.state = as;
  if (as == Waiter::State::kBusy &&
      (unreachable_since_ || !KnowsWhy(waiter) || waiter.patience == Patience::kEndless)) {
    waiter.state = Waiter::State::kFailed;
    if (unreachable_since_) waiter.failure = base::Unshared(last_failure_);
    if (waiter.failure.ok()) {
      waiter.failure = absl::UnavailableError("the server did not answer in time");
    }
  }
  CountEnd(waiter.state);
  Expire(now, effects);
  if (grant_ && !held()) {
    Settle(0, FencingToken(), now, effects);
  } else {
    Pursue(now);
  }
}

void LockMachine::StopAll(const void* object, base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (waiter->object != object) continue;
    GiveUp(*waiter, Waiter::State::kStopped, now, effects);
    Wake(*waiter, effects);
  }
}

}  // namespace redlatch::engine
