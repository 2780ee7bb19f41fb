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

// A bid, sent then, went unanswered.
void LockMachine::Unreachable(base::Instant sent, const absl::Status& why, base::Instant now,
                              Effects& effects) {
  base::Instant since = sent;
  if (!server_.silent()) {
    for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) {
      since = std::min(since, server_.Since(waiter->silent_since));
      // From here on it must see to it that it does not wait for too long.
      if (waiter->patience == Patience::kEndless) Wake(*waiter, effects);
    }
  }
  server_.Unheard(since, why);
  if (config_.unreachable_after <= now - server_.since()) {
    FailIf(Patience::kEndless, now - config_.unreachable_after, server_.why(), effects);
  }
}

bool LockMachine::IsInTheWay(const Waiter& waiter) const {
  if (!server_.silent()) return false;
  for (const Waiter* other = queue_.head(); other != nullptr; other = other->next) {
    if (other != &waiter && other->patience != Patience::kNone) return true;
  }
  return false;
}

bool LockMachine::KnowsWhy(const Waiter& waiter) const {
  return server_.silent() || (grant_ && !joined()) || (pursuit_ && pursuit_->queued) ||
         waiter.since <= taken_at_;
}

base::Instant LockMachine::GivesUpAt(const Waiter& waiter, base::Instant sent) const {
  if (waiter.patience != Patience::kEndless) return base::Instant::Infinite();
  const auto after = [&](base::Instant silent) {
    return std::max(silent, waiter.began) + config_.unreachable_after;
  };
  const base::Instant met = server_.Since(waiter.silent_since);
  if (server_.silent()) return after(std::min(server_.since(), met));
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
      (server_.silent() || !KnowsWhy(waiter) || waiter.patience == Patience::kEndless)) {
    waiter.state = Waiter::State::kFailed;
    if (server_.silent()) waiter.failure = base::Unshared(server_.why());
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
