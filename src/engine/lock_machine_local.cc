// Inside the client: who of its threads has the lock, who waits, what a release means.
#include <algorithm>

#include "src/base/status.h"
#include "src/engine/lock_machine.h"

namespace redlatch::engine {

void LockMachine::Wake(Waiter& waiter, Effects& effects) {
  if (!waiter.parked || waiter.wake_pending) return;
  waiter.wake_pending = true;
  effects.wakes.push_back(&waiter);
}

void LockMachine::Decide(Waiter& waiter, Waiter::State state, Effects& effects) {
  waiter.state = state;
  Wake(waiter, effects);
}

void LockMachine::FailIf(Patience patience, base::Instant joined_by, const absl::Status& why,
                         Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (waiter->patience != patience || joined_by < waiter->since) continue;
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

void LockMachine::Acquire(Waiter& waiter, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (holding_ && holding_->tenure) {
    const Tenure& tenure = *holding_->tenure;
    if (const auto standing = Reenter(waiter.thread, waiter.face, now)) {
      waiter.tenure = standing->tenure;
      waiter.token = standing->token;
      return Decide(waiter, Waiter::State::kGranted, effects);
    }
    if (waiter.face == Face::kStd && tenure.thread == waiter.thread && tenure.std_depth > 0) {
      return Decide(waiter, Waiter::State::kDeadlock, effects);
    }
  } else if (holding_ && holding_->retakes_left > 0 && CanPass(waiter, now)) {
    --holding_->retakes_left;
    return GiveTo(waiter, effects);
  }
  const bool taken = holding_ || (pursuit_ && pursuit_->queued && !unreachable_since_);
  if (taken && waiter.patience == Patience::kNone) {
    return Decide(waiter, Waiter::State::kBusy, effects);
  }
  waiter.since = now;
  queue_.Append(waiter);
  Pursue(now);
  // Whoever does not wait is not kept until a retry is due.
  if (waiter.patience == Patience::kNone && pursuit_ && now < pursuit_->due) pursuit_->due = now;
}

std::optional<LockMachine::Standing> LockMachine::Reenter(uint64_t thread, Face face,
                                                          base::Instant now) {
  if (!config_.reentrant || !holding_ || !holding_->tenure || next_expiry() <= now) {
    return std::nullopt;
  }
  Tenure& tenure = *holding_->tenure;
  if (!config_.explicit_owner && tenure.thread != thread) return std::nullopt;
  ++tenure.depth;
  if (face == Face::kStd) ++tenure.std_depth;
  return Standing{.tenure = tenure.id, .token = tenure.token, .depth = tenure.depth};
}

bool LockMachine::Leave(uint64_t thread, Face face) {
  if (!holding_ || !holding_->tenure) return false;
  Tenure& tenure = *holding_->tenure;
  if (tenure.depth < 2 || tenure.thread != thread) return false;
  if (face == Face::kStd) {
    if (tenure.std_depth == 0) return false;
    --tenure.std_depth;
  }
  --tenure.depth;
  return true;
}

bool LockMachine::CanPass(const Waiter& waiter, base::Instant now) const {
  return now < holding_->deadline && !holding_->others &&
         now < holding_->asked + waiter.options->local_window && waiter.terms == holding_->terms &&
         !waiter.terms.manual && !config_.explicit_owner &&
         holding_->next_token <= holding_->last_token;
}

void LockMachine::GiveTo(Waiter& waiter, Effects& effects) {
  const uint64_t token = holding_->next_token++;
  waiter.token = FencingToken(token);
  waiter.tenure = NextNumber();
  const uint64_t before = token - holding_->first_token;
  waiter.not_before = holding_->reserved + absl::Microseconds(static_cast<int64_t>(before));
  holding_->at_risk = false;
  holding_->tenure.emplace(Tenure{
      .id = waiter.tenure,
      .thread = waiter.thread,
      .depth = 1,
      .std_depth = waiter.face == Face::kStd ? 1U : 0U,
      .token = waiter.token,
      .options = waiter.options,
  });
  Decide(waiter, Waiter::State::kGranted, effects);
}

void LockMachine::GiveToHead(Effects& effects) {
  Waiter& head = *queue_.head();
  queue_.Remove(head);
  holding_->retakes_left = head.options->local_retakes;
  GiveTo(head, effects);
}

// The holding is free: it passes on inside the client, or goes back to the server.
void LockMachine::Settle(uint64_t ended, FencingToken token, base::Instant now, Effects& effects) {
  Waiter* const head = queue_.head();
  if (head == nullptr || !CanPass(*head, now)) {
    LetGo(ended, token, now);
    return Pursue(now);
  }
  if (holding_->retakes_left <= 0) return GiveToHead(effects);
  if (head->poked) return;
  head->poked = true;
  Wake(*head, effects);
}

void LockMachine::Poked(Waiter& waiter, base::Instant now, Effects& effects) {
  waiter.poked = false;
  Expire(now, effects);
  if (waiter.state != Waiter::State::kWaiting || !holding_) return;
  if (holding_->tenure) {
    holding_->retakes_left = 0;  // somebody was faster: the next one is ours
  } else if (queue_.head() == &waiter && CanPass(waiter, now)) {
    GiveToHead(effects);
  } else {
    Settle(0, FencingToken(), now, effects);
  }
}

bool LockMachine::KnowsWhy(const Waiter& waiter) const {
  return unreachable_since_ || holding_ || (pursuit_ && pursuit_->queued) ||
         waiter.since <= taken_at_;
}

void LockMachine::GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects) {
  if (waiter.state != Waiter::State::kWaiting) return;
  queue_.Remove(waiter);
  waiter.state = as;
  if (as == Waiter::State::kBusy && (unreachable_since_ || !KnowsWhy(waiter))) {
    waiter.state = Waiter::State::kFailed;
    waiter.failure = unreachable_since_
                         ? base::Unshared(last_failure_)
                         : absl::UnavailableError("the server did not answer in time");
  }
  Expire(now, effects);
  if (holding_ && !holding_->tenure) {
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

void LockMachine::EndTenure(Effects& effects) {
  effects.ended = std::move(holding_->tenure->options);
  holding_->tenure.reset();
}

Released LockMachine::EndLevel(Face face, base::Instant now, Effects& effects) {
  Tenure& tenure = *holding_->tenure;
  Released released{.tenure = tenure.id, .token = tenure.token};
  --tenure.depth;
  if (face == Face::kStd) --tenure.std_depth;
  if (tenure.depth > 0) return released;
  EndTenure(effects);
  Settle(released.tenure, released.token, now, effects);
  if (!holding_) released.kind = Released::Kind::kUnderWay;
  return released;
}

Released LockMachine::Release(uint64_t tenure, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (Current(tenure)) {
    const Tenure& current = *holding_->tenure;
    // What is left of it is unlock()'s to end.
    if (current.depth == current.std_depth) return {.kind = Released::Kind::kNotHeld};
    return EndLevel(Face::kStatus, now, effects);
  }
  for (Debt& debt : debts_) {
    if (debt.tenure != tenure) continue;
    if (debt.settled) return Outcome(tenure);
    if (!debt.in_flight) debt.due = now;
    return {.kind = Released::Kind::kUnderWay, .tenure = tenure, .token = debt.outcome.token};
  }
  return {.kind = Released::Kind::kLost, .tenure = tenure};
}

Released LockMachine::Unlock(uint64_t thread, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (holding_ && holding_->tenure && holding_->tenure->thread == thread &&
      holding_->tenure->std_depth > 0) {
    return EndLevel(Face::kStd, now, effects);
  }
  for (auto lost = lost_std_.begin(); lost != lost_std_.end(); ++lost) {
    if (lost->thread != thread) continue;
    Released released{.kind = Released::Kind::kLost, .tenure = lost->tenure, .token = lost->token};
    if (--lost->depth == 0) lost_std_.erase(lost);
    return released;
  }
  return {.kind = Released::Kind::kNotHeld};
}

void LockMachine::Orphan(uint64_t tenure, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (!Current(tenure)) return;
  EndTenure(effects);
  Settle(0, FencingToken(), now, effects);
}

uint64_t LockMachine::tenure() const {
  return holding_ && holding_->tenure ? holding_->tenure->id : 0;
}

bool LockMachine::Current(uint64_t tenure) const {
  return holding_ && holding_->tenure && holding_->tenure->id == tenure;
}

bool LockMachine::Valid(uint64_t tenure, base::Instant now) const {
  return Current(tenure) && now < holding_->deadline;
}

base::Instant LockMachine::Deadline(uint64_t tenure) const {
  return Current(tenure) ? holding_->deadline : base::Instant();
}

std::stop_token LockMachine::Lost(uint64_t tenure) {
  if (Current(tenure)) {
    std::optional<std::stop_source>& lost = holding_->tenure->lost;
    if (!lost) lost.emplace();
    return lost->get_token();
  }
  std::stop_source source;
  if (std::find(lost_tenures_.begin(), lost_tenures_.end(), tenure) != lost_tenures_.end()) {
    source.request_stop();
  }
  return source.get_token();
}

LockMachine::Standing LockMachine::OfThread(uint64_t thread) const {
  if (holding_ && holding_->tenure && holding_->tenure->thread == thread) {
    const Tenure& tenure = *holding_->tenure;
    return {.tenure = tenure.id, .token = tenure.token, .depth = tenure.depth};
  }
  for (const LostStd& lost : lost_std_) {
    if (lost.thread == thread) return {.tenure = lost.tenure, .token = lost.token};
  }
  return {};
}

}  // namespace redlatch::engine
