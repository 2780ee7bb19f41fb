// Inside the client: who of its threads has the lock, who waits, what a release means.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/status.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

void LockMachine::Wake(Waiter& waiter, Effects& effects) {
  if (!waiter.parked || waiter.wake_pending) return;
  waiter.wake_pending = true;
  effects.wakes.push_back(&waiter);
}

void LockMachine::Decide(Waiter& waiter, Waiter::State state, Effects& effects) {
  waiter.state = state;
  // What the server has answered since is no silence to be taken along.
  if (state == Waiter::State::kElsewhere) waiter.silent_since = SilentSince(waiter);
  if (state != Waiter::State::kGranted) CountEnd(state);
  Wake(waiter, effects);
}

void LockMachine::Acquire(Waiter& waiter, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (held()) {
    if (const auto standing = Reenter(waiter.thread, waiter.face, now)) {
      waiter.tenure = standing->tenure;
      waiter.token = standing->token;
      waiter.view = standing->view;
      return Decide(waiter, Waiter::State::kGranted, effects);
    }
    if (joined()) return Join(waiter, now, effects);
    const Tenure* const mine = FindOf(waiter.thread);
    if (waiter.face == Face::kStd && mine != nullptr && mine->std_depth > 0) {
      return Decide(waiter, Waiter::State::kDeadlock, effects);
    }
  } else if (holding_ && holding_->retakes_left > 0 && CanPass(waiter, now)) {
    --holding_->retakes_left;
    return GiveTo(waiter, now, effects);
  }
  const bool taken = holding_ || (pursuit_ && pursuit_->queued && !unreachable_since_);
  if (taken && waiter.patience == Patience::kNone) {
    return Decide(waiter, Waiter::State::kBusy, effects);
  }
  if (joined() && pursuit_ &&
      (pursuit_->bid.attempt > 0 || pursuit_->bid.terms != waiter.terms || waiter.terms.manual)) {
    // What was asked for before this waiter came does not let it in, and a manual hold is one's
    // own.
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  waiter.since = now;
  queue_.Append(waiter);
  Pursue(now);
  // Whoever does not wait is not kept until a retry is due.
  if (waiter.patience == Patience::kNone && pursuit_ && now < pursuit_->due) pursuit_->due = now;
}

// A hold is there, and its threads share it.
void LockMachine::Join(Waiter& waiter, base::Instant now, Effects& effects) {
  if (holding_->others || waiter.terms != holding_->terms || waiter.terms.manual) {
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  if (now < holding_->asked + waiter.options->local_window) return GiveTo(waiter, now, effects);
  waiter.since = now;
  queue_.Append(waiter);
  RenewNow(now);
}

// The server was asked whether readers may join, or could not be.
void LockMachine::LetJoin(base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    const bool open = holding_->failures == 0 && !holding_->others;
    if (open && holding_->asked < waiter->since &&
        holding_->asked + waiter->options->local_window <= now) {
      holding_->renew_due = now;  // the answer is older than the question
      continue;
    }
    queue_.Remove(*waiter);
    if (open) {
      GiveTo(*waiter, now, effects);
    } else {
      if (holding_->failures > 0) {
        waiter->silent_since = std::min(waiter->silent_since, waiter->since);
        waiter->failure = base::Unshared(holding_->last_failure);
      }
      Decide(*waiter, Waiter::State::kElsewhere, effects);
    }
  }
}

std::optional<LockMachine::Standing> LockMachine::Reenter(uint64_t thread, Face face,
                                                          base::Instant now) {
  if (!config_.reentrant || !held() || next_expiry() <= now) return std::nullopt;
  Tenure* const mine = config_.explicit_owner ? &holding_->tenures.front() : FindOf(thread);
  if (mine == nullptr) return std::nullopt;
  Tenure& tenure = *mine;
  ++tenure.depth;
  if (face == Face::kStd) ++tenure.std_depth;
  return Standing{.tenure = tenure.id,
                  .token = tenure.token,
                  .depth = tenure.depth,
                  .view = face == Face::kStatus ? ViewOf(tenure) : nullptr};
}

bool LockMachine::Leave(uint64_t thread, Face face) {
  Tenure* const mine = FindOf(thread);
  if (mine == nullptr || mine->depth < 2) return false;
  Tenure& tenure = *mine;
  if (face == Face::kStd) {
    if (tenure.std_depth == 0) return false;
    --tenure.std_depth;
  }
  --tenure.depth;
  return true;
}

bool LockMachine::CanPass(const Waiter& waiter, base::Instant now) const {
  return now < holding_->deadline && !holding_->others && !holding_->pinned &&
         now < holding_->asked + waiter.options->local_window && waiter.terms == holding_->terms &&
         !waiter.terms.manual && !config_.explicit_owner &&
         config_.sharing == Sharing::kExclusive && holding_->next_token <= holding_->last_token;
}

void LockMachine::GiveTo(Waiter& waiter, base::Instant now, Effects& effects) {
  const uint64_t token =
      config_.sharing == Sharing::kExclusive ? holding_->next_token++ : holding_->first_token;
  waiter.token = waiter.write_token == FencingToken() ? FencingToken(token) : waiter.write_token;
  waiter.tenure = NextNumber();
  waiter.poked = false;  // it may have to wait again, where it sleeps through its hold
  const uint64_t before = token - holding_->first_token;
  waiter.not_before = holding_->reserved + absl::Microseconds(static_cast<int64_t>(before));
  if (!held()) holding_->at_risk = false;
  Tenure& tenure = holding_->tenures.emplace_back(Tenure{
      .id = waiter.tenure,
      .thread = waiter.thread,
      .depth = 1,
      .std_depth = waiter.face == Face::kStd ? 1U : 0U,
      .token = waiter.token,
      .began = now,
      .options = waiter.options,
  });
  if (waiter.face == Face::kStatus) waiter.view = ViewOf(tenure);
  if (config_.counts) tally_.waited.Add(waiter.began, now);
  Decide(waiter, Waiter::State::kGranted, effects);
}

void LockMachine::GiveToHead(base::Instant now, Effects& effects) {
  while (joined() && queue_.has_several()) {
    Waiter& first = *queue_.head();
    queue_.Remove(first);
    GiveTo(first, now, effects);
  }
  Waiter& head = *queue_.head();
  queue_.Remove(head);
  holding_->retakes_left = head.options->local_retakes;
  GiveTo(head, now, effects);
}

// The holding is free: it passes on inside the client, or goes back to the server.
void LockMachine::Settle(uint64_t ended, FencingToken token, base::Instant now, Effects& effects) {
  Waiter* const head = queue_.head();
  if (head == nullptr || !CanPass(*head, now)) {
    LetGo(ended, token, now);
    return Pursue(now);
  }
  if (holding_->retakes_left <= 0) return GiveToHead(now, effects);
  if (head->poked) return;
  head->poked = true;
  Wake(*head, effects);
}

void LockMachine::Poked(Waiter& waiter, base::Instant now, Effects& effects) {
  waiter.poked = false;
  Expire(now, effects);
  if (waiter.state != Waiter::State::kWaiting || !holding_) return;
  if (held()) {
    holding_->retakes_left = 0;  // somebody was faster: the next one is ours
  } else if (queue_.head() == &waiter && CanPass(waiter, now)) {
    GiveToHead(now, effects);
  } else {
    Settle(0, FencingToken(), now, effects);
  }
}

void LockMachine::EndTenure(const Tenure& tenure, base::Instant now, Effects& effects) {
  if (config_.counts) tally_.held_for.Add(tenure.began, now);
  if (tenure.view != nullptr) tenure.view->Release();
  effects.ended.push_back(tenure.options);
  holding_->tenures.erase(holding_->tenures.begin() + (&tenure - holding_->tenures.data()));
}

Released LockMachine::EndLevel(Tenure& tenure, Face face, base::Instant now, Effects& effects) {
  Released released{.tenure = tenure.id, .token = tenure.token};
  --tenure.depth;
  if (face == Face::kStd) --tenure.std_depth;
  if (tenure.depth > 0) return released;
  EndTenure(tenure, now, effects);
  if (held()) return released;
  Settle(released.tenure, released.token, now, effects);
  if (!holding_) released.kind = Released::Kind::kUnderWay;
  return released;
}

Released LockMachine::Release(uint64_t tenure, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (Tenure* const current = Find(tenure)) {
    // What is left of it is unlock()'s to end.
    if (current->depth == current->std_depth) return {.kind = Released::Kind::kNotHeld};
    return EndLevel(*current, Face::kStatus, now, effects);
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
  if (Tenure* const mine = FindOf(thread); mine != nullptr && mine->std_depth > 0) {
    return EndLevel(*mine, Face::kStd, now, effects);
  }
  for (auto lost = lost_std_.begin(); lost != lost_std_.end(); ++lost) {
    if (lost->thread != thread) continue;
    Released released{.kind = Released::Kind::kLost, .tenure = lost->tenure, .token = lost->token};
    if (--lost->depth == 0) lost_std_.erase(lost);
    return released;
  }
  return {.kind = Released::Kind::kNotHeld};
}

void LockMachine::EndStd(base::Instant now, Effects& effects) {
  Expire(now, effects);
  lost_std_.clear();
  if (!held()) return;
  for (size_t i = holding_->tenures.size(); i-- > 0;) {
    Tenure& tenure = holding_->tenures[i];
    tenure.depth -= std::exchange(tenure.std_depth, 0);
    if (tenure.depth == 0) EndTenure(tenure, now, effects);
  }
  if (!held()) Settle(0, FencingToken(), now, effects);
}

absl::InlinedVector<uint64_t, 1> LockMachine::tenures() const {
  absl::InlinedVector<uint64_t, 1> ids;
  if (holding_) {
    for (const Tenure& tenure : holding_->tenures) ids.push_back(tenure.id);
  }
  return ids;
}

const Tenure* LockMachine::Find(uint64_t tenure) const {
  if (!holding_) return nullptr;
  for (const Tenure& each : holding_->tenures) {
    if (each.id == tenure) return &each;
  }
  return nullptr;
}

const Tenure* LockMachine::FindOf(uint64_t thread) const {
  if (!holding_) return nullptr;
  for (const Tenure& each : holding_->tenures) {
    if (each.thread == thread) return &each;
  }
  return nullptr;
}

bool LockMachine::Valid(uint64_t tenure, base::Instant now) const {
  return Find(tenure) != nullptr && now < holding_->deadline;
}

base::Instant LockMachine::Deadline(uint64_t tenure) const {
  return Find(tenure) != nullptr ? holding_->deadline : base::Instant();
}

std::shared_ptr<TenureView> LockMachine::ViewOf(Tenure& tenure) const {
  if (tenure.view == nullptr) tenure.view = std::make_shared<TenureView>(holding_->deadline);
  return tenure.view;
}

std::shared_ptr<TenureView> LockMachine::ViewOf(uint64_t thread) {
  if (Tenure* const mine = FindOf(thread)) return ViewOf(*mine);
  for (const LostStd& lost : lost_std_) {
    if (lost.thread == thread) return lost.view;
  }
  return nullptr;
}

LockMachine::Standing LockMachine::Pin(uint64_t thread) {
  Standing standing = OfThread(thread);
  if (standing.depth > 0) holding_->pinned = true;
  return standing;
}

LockMachine::Standing LockMachine::OfThread(uint64_t thread) const {
  if (const Tenure* const mine = FindOf(thread)) {
    return {.tenure = mine->id, .token = mine->token, .depth = mine->depth, .hold = holding_->hold};
  }
  for (const LostStd& lost : lost_std_) {
    if (lost.thread == thread) return {.tenure = lost.tenure, .token = lost.token};
  }
  return {};
}

}  // namespace redlatch::engine
