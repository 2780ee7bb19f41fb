// Inside the client: who of its threads has the lock, who waits, what a release means.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/status.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

void LockMachine::Wake(Waiter& waiter, Effects& effects) {
  if (Rouse(waiter)) effects.wakes.push_back(&waiter);
}

void LockMachine::Decide(Waiter& waiter, Waiter::State state, Effects& effects) {
  waiter.state = state;
  // What the server has answered since is no silence to be taken along.
  if (state == Waiter::State::kElsewhere) waiter.silent_since = server_.Since(waiter.silent_since);
  if (state != Waiter::State::kGranted) CountEnd(state);
  Wake(waiter, effects);
}

void LockMachine::Acquire(Waiter& waiter, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (held()) {
    if (const auto again = Reenter(waiter.thread, waiter.face, now)) {
      waiter.hold = again->hold;
      waiter.token = again->token;
      waiter.view = again->view;
      return Decide(waiter, Waiter::State::kGranted, effects);
    }
    if (joined()) return Join(waiter, now, effects);
    const ThreadHold* const mine = FindOf(waiter.thread);
    if (waiter.face == Face::kStd && mine != nullptr && mine->std_depth > 0) {
      return Decide(waiter, Waiter::State::kDeadlock, effects);
    }
  } else if (grant_ && grant_->retakes_left > 0 && CanPass(waiter, now)) {
    --grant_->retakes_left;
    return GiveTo(waiter, now, effects);
  }
  const bool taken = grant_ || (pursuit_ && pursuit_->queued && !server_.silent());
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
  if (grant_->others || waiter.terms != grant_->terms || waiter.terms.manual) {
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  if (now < grant_->asked + waiter.options->local_window) return GiveTo(waiter, now, effects);
  waiter.since = now;
  queue_.Append(waiter);
  RenewNow(now);
}

// The server was asked whether readers may join, or could not be.
void LockMachine::LetJoin(base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    const bool open = grant_->failures == 0 && !grant_->others;
    if (open && grant_->asked < waiter->since &&
        grant_->asked + waiter->options->local_window <= now) {
      grant_->renew_due = now;  // the answer is older than the question
      continue;
    }
    queue_.Remove(*waiter);
    if (open) {
      GiveTo(*waiter, now, effects);
    } else {
      if (grant_->failures > 0) {
        waiter->silent_since = std::min(waiter->silent_since, waiter->since);
        waiter->failure = base::Unshared(grant_->last_failure);
      }
      Decide(*waiter, Waiter::State::kElsewhere, effects);
    }
  }
}

std::optional<Held> LockMachine::Reenter(uint64_t thread, Face face, base::Instant now) {
  if (!config_.reentrant || !held() || next_expiry() <= now) return std::nullopt;
  ThreadHold* const mine = config_.explicit_owner ? &grant_->holds.front() : FindOf(thread);
  if (mine == nullptr) return std::nullopt;
  ThreadHold& hold = *mine;
  ++hold.depth;
  if (face == Face::kStd) ++hold.std_depth;
  return Held{.hold = hold.id,
              .token = hold.token,
              .depth = hold.depth,
              .view = face == Face::kStatus ? ViewOf(hold) : nullptr};
}

bool LockMachine::ReleaseInner(uint64_t thread, Face face) {
  ThreadHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->depth < 2) return false;
  ThreadHold& hold = *mine;
  if (face == Face::kStd) {
    if (hold.std_depth == 0) return false;
    --hold.std_depth;
  }
  --hold.depth;
  return true;
}

bool LockMachine::CanPass(const Waiter& waiter, base::Instant now) const {
  return now < grant_->deadline && !grant_->others && !grant_->pinned &&
         now < grant_->asked + waiter.options->local_window && waiter.terms == grant_->terms &&
         !waiter.terms.manual && !config_.explicit_owner && config_.sharing.passes_on &&
         grant_->next_token <= grant_->last_token;
}

void LockMachine::GiveTo(Waiter& waiter, base::Instant now, Effects& effects) {
  const uint64_t token = config_.sharing.passes_on ? grant_->next_token++ : grant_->first_token;
  waiter.token = waiter.write_token == FencingToken() ? FencingToken(token) : waiter.write_token;
  waiter.hold = NextNumber();
  waiter.poked = false;  // it may have to wait again, where it sleeps through its hold
  const uint64_t before = token - grant_->first_token;
  waiter.not_before = grant_->reserved + absl::Microseconds(static_cast<int64_t>(before));
  if (!held()) grant_->at_risk = false;
  ThreadHold& hold = grant_->holds.emplace_back(ThreadHold{
      .id = waiter.hold,
      .thread = waiter.thread,
      .depth = 1,
      .std_depth = waiter.face == Face::kStd ? 1U : 0U,
      .token = waiter.token,
      .began = now,
      .options = waiter.options,
  });
  if (waiter.face == Face::kStatus) waiter.view = ViewOf(hold);
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
  grant_->retakes_left = head.options->local_retakes;
  GiveTo(head, now, effects);
}

// The holding is free: it passes on inside the client, or goes back to the server.
void LockMachine::Settle(uint64_t ended, FencingToken token, base::Instant now, Effects& effects) {
  Waiter* const head = queue_.head();
  if (head == nullptr || !CanPass(*head, now)) {
    ReleaseGrant(ended, token, now);
    return Pursue(now);
  }
  if (grant_->retakes_left <= 0) return GiveToHead(now, effects);
  if (head->poked) return;
  head->poked = true;
  Wake(*head, effects);
}

void LockMachine::Poked(Waiter& waiter, base::Instant now, Effects& effects) {
  waiter.poked = false;
  Expire(now, effects);
  if (waiter.state != Waiter::State::kWaiting || !grant_) return;
  if (held()) {
    grant_->retakes_left = 0;  // somebody was faster: the next one is ours
  } else if (queue_.head() == &waiter && CanPass(waiter, now)) {
    GiveToHead(now, effects);
  } else {
    Settle(0, FencingToken(), now, effects);
  }
}

void LockMachine::EndHold(const ThreadHold& hold, base::Instant now, Effects& effects) {
  if (config_.counts) tally_.held_for.Add(hold.began, now);
  if (hold.view != nullptr) hold.view->Release();
  effects.ended.push_back(hold.options);
  grant_->holds.erase(grant_->holds.begin() + (&hold - grant_->holds.data()));
}

Released LockMachine::ReleaseLevel(ThreadHold& hold, Face face, base::Instant now,
                                   Effects& effects) {
  Released released{.hold = hold.id, .token = hold.token};
  --hold.depth;
  if (face == Face::kStd) --hold.std_depth;
  if (hold.depth > 0) return released;
  EndHold(hold, now, effects);
  if (held()) return released;
  Settle(released.hold, released.token, now, effects);
  if (!grant_) released.kind = Released::Kind::kUnderWay;
  return released;
}

Released LockMachine::Release(uint64_t hold, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (ThreadHold* const current = Find(hold)) {
    // What is left of it is unlock()'s to end.
    if (current->depth == current->std_depth) return {.kind = Released::Kind::kNotHeld};
    return ReleaseLevel(*current, Face::kStatus, now, effects);
  }
  if (auto released = debts_.Repeat(hold, now)) return *std::move(released);
  return {.kind = Released::Kind::kLost, .hold = hold};
}

Released LockMachine::Unlock(uint64_t thread, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (ThreadHold* const mine = FindOf(thread); mine != nullptr && mine->std_depth > 0) {
    return ReleaseLevel(*mine, Face::kStd, now, effects);
  }
  for (auto lost = lost_std_.begin(); lost != lost_std_.end(); ++lost) {
    if (lost->thread != thread) continue;
    Released released{.kind = Released::Kind::kLost, .hold = lost->hold, .token = lost->token};
    if (--lost->depth == 0) lost_std_.erase(lost);
    return released;
  }
  return {.kind = Released::Kind::kNotHeld};
}

void LockMachine::ReleaseStd(base::Instant now, Effects& effects) {
  Expire(now, effects);
  lost_std_.clear();
  if (!held()) return;
  for (size_t i = grant_->holds.size(); i-- > 0;) {
    ThreadHold& hold = grant_->holds[i];
    hold.depth -= std::exchange(hold.std_depth, 0);
    if (hold.depth == 0) EndHold(hold, now, effects);
  }
  if (!held()) Settle(0, FencingToken(), now, effects);
}

absl::InlinedVector<uint64_t, 1> LockMachine::holds() const {
  absl::InlinedVector<uint64_t, 1> ids;
  if (grant_) {
    for (const ThreadHold& hold : grant_->holds) ids.push_back(hold.id);
  }
  return ids;
}

const ThreadHold* LockMachine::Find(uint64_t hold) const {
  if (!grant_) return nullptr;
  for (const ThreadHold& each : grant_->holds) {
    if (each.id == hold) return &each;
  }
  return nullptr;
}

const ThreadHold* LockMachine::FindOf(uint64_t thread) const {
  if (!grant_) return nullptr;
  for (const ThreadHold& each : grant_->holds) {
    if (each.thread == thread) return &each;
  }
  return nullptr;
}

bool LockMachine::Valid(uint64_t hold, base::Instant now) const {
  return Find(hold) != nullptr && now < grant_->deadline;
}

base::Instant LockMachine::Deadline(uint64_t hold) const {
  return Find(hold) != nullptr ? grant_->deadline : base::Instant();
}

std::shared_ptr<HoldView> LockMachine::ViewOf(ThreadHold& hold) const {
  if (hold.view == nullptr) hold.view = std::make_shared<HoldView>(grant_->deadline);
  return hold.view;
}

std::shared_ptr<HoldView> LockMachine::ViewOf(uint64_t thread) {
  if (ThreadHold* const mine = FindOf(thread)) return ViewOf(*mine);
  for (const LostStd& lost : lost_std_) {
    if (lost.thread == thread) return lost.view;
  }
  return nullptr;
}

Held LockMachine::Pin(uint64_t thread) {
  Held mine = OfThread(thread);
  if (mine.depth > 0) grant_->pinned = true;
  return mine;
}

Held LockMachine::OfThread(uint64_t thread) const {
  if (const ThreadHold* const mine = FindOf(thread)) {
    return {.hold = mine->id, .token = mine->token, .depth = mine->depth, .grant = grant_->id};
  }
  for (const LostStd& lost : lost_std_) {
    if (lost.thread == thread) return {.hold = lost.hold, .token = lost.token};
  }
  return {};
}

}  // namespace redlatch::engine
