// How long a thread waits: for a lock that is somebody's, and for a server that does not answer.
#include <algorithm>

#include "src/base/status.h"
#include "src/engine/machine/bidder.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

void Bidder::Wake(Waiter& waiter, Effects& effects) {
  if (Rouse(waiter)) effects.wakes.push_back(&waiter);
}

void Bidder::Decide(Waiter& waiter, Waiter::State state, Effects& effects) {
  waiter.state = state;
  // What the server has answered since is no silence to be taken along.
  if (state == Waiter::State::kElsewhere) waiter.silent_since = server_.Since(waiter.silent_since);
  if (state != Waiter::State::kGranted) tally_.CountEnd(state);
  Wake(waiter, effects);
}

void Bidder::FailIf(Patience patience, base::Instant begun_by, const absl::Status& why,
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

void Bidder::FailAll(const absl::Status& why, Effects& effects) {
  for (Patience each : {Patience::kNone, Patience::kBounded, Patience::kEndless}) {
    FailIf(each, base::Instant::Infinite(), why, effects);
  }
}

void Bidder::RefuseImpatient(Effects& effects) {
  FailIf(Patience::kNone, base::Instant::Infinite(), absl::OkStatus(), effects);
}

// A bid, sent then, went unanswered.
void Bidder::Unreachable(base::Instant sent, const absl::Status& why, base::Instant now,
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

bool Bidder::IsInTheWay(const Waiter& waiter) const {
  if (!server_.silent()) return false;
  for (const Waiter* other = queue_.head(); other != nullptr; other = other->next) {
    if (other != &waiter && other->patience != Patience::kNone) return true;
  }
  return false;
}

bool Bidder::KnowsWhy(const Waiter& waiter) const {
  return server_.silent() || (pursuit_ && pursuit_->queued) || waiter.since <= taken_at_;
}

base::Instant Bidder::GivesUpAt(const Waiter& waiter, base::Instant sent) const {
  if (waiter.patience != Patience::kEndless) return base::Instant::Infinite();
  const auto after = [&](base::Instant silent) {
    return std::max(silent, waiter.began) + config_.unreachable_after;
  };
  const base::Instant met = server_.Since(waiter.silent_since);
  if (server_.silent()) return after(std::min(server_.since(), met));
  const base::Instant asked = std::min(sent, AskedAt(waiter));
  if (asked == base::Instant::Infinite()) return asked;
  // Where nothing went unanswered yet, a healthy server is given a moment.
  return std::min(after(asked) + kAnswerGrace, after(met));
}

base::Instant Bidder::AskedAt(const Waiter&) const {
  const bool asked = pursuit_ && pursuit_->in_flight && !pursuit_->attempts.empty();
  return asked ? pursuit_->attempts.back().sent : base::Instant::Infinite();
}

void Bidder::GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects) {
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
  tally_.CountEnd(waiter.state);
  OnGivenUp(now, effects);
}

void Bidder::StopAll(const void* object, base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (waiter->object != object) continue;
    GiveUp(*waiter, Waiter::State::kStopped, now, effects);
    Wake(*waiter, effects);
  }
}

}  // namespace redlatch::engine
