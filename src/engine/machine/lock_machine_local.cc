// Inside the client: who of its threads has the lock, who waits, what a release means.
#include <algorithm>

#include "src/base/status.h"
#include "src/engine/machine/lock_machine.h"

namespace redlatch::engine {

void LockMachine::Acquire(Waiter& waiter, base::Instant now, Effects& effects) {
  Expire(now, effects);
  OnComing(waiter, now);
  if (held()) {
    if (Enter(waiter, now, effects)) return;
    if (joined()) return Join(waiter, now, effects);
    const ThreadHold* const mine = FindOf(waiter.thread);
    if (waiter.face == Face::kStd && mine != nullptr && mine->std_depth > 0) {
      return Decide(waiter, Waiter::State::kDeadlock, effects);
    }
  } else if (resting()) {
    if (TakeRested(waiter, now, effects)) return;
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
  Enqueue(waiter, now);
}

// The waiter enters the hold of its thread, or of its Owner; not a claim if it wants a whole lease.
bool LockMachine::Enter(Waiter& waiter, base::Instant now, Effects& effects) {
  if (config_.explicit_owner && grant_->claimed && waiter.patience != Patience::kNone &&
      (waiter.terms.whole || waiter.terms.manual)) {
    RenewNow(now);
    return false;
  }
  const auto again = Reenter(waiter.thread, waiter.face, waiter.terms.manual, now);
  if (!again) return false;
  waiter.hold = again->hold;
  waiter.token = again->token;
  waiter.view = again->view;
  waiter.not_before = again->not_before;
  Decide(waiter, Waiter::State::kGranted, effects);
  return true;
}

void LockMachine::LetOwnerIn(base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (Enter(*waiter, now, effects)) queue_.Remove(*waiter);
  }
}

// A grant is there, and its threads share it.
void LockMachine::Join(Waiter& waiter, base::Instant now, Effects& effects) {
  if (grant_->others || waiter.terms != grant_->terms || waiter.terms.manual) {
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  if (Stays() || now < grant_->asked + waiter.options->local_window) {
    return GiveTo(waiter, now, effects);
  }
  if (grant_->wanted) {  // that another client waits is all that the server could say
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
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

bool LockMachine::CanPass(const Waiter& waiter, base::Instant now) const {
  const bool in_window = !grant_->others && now < grant_->asked + waiter.options->local_window;
  return (in_window || now < grant_->turn_ends || Stays()) && now < grant_->deadline &&
         !grant_->pinned && waiter.terms == grant_->terms && !waiter.terms.manual &&
         !config_.explicit_owner && config_.sharing.passes_on && HasTokens();
}

LockMachine::Drawn LockMachine::NextToken() {
  const uint64_t token = grant_->next_token++;
  const auto before = static_cast<int64_t>(token - grant_->first_token);
  return {.token = FencingToken(token),
          .not_before = grant_->reserved + absl::Microseconds(before)};
}

void LockMachine::GiveTo(Waiter& waiter, base::Instant now, Effects& effects) {
  if (!config_.sharing.passes_on) {
    waiter.token = waiter.write_token == FencingToken() ? FencingToken(grant_->first_token)
                                                        : waiter.write_token;
  } else if (waiter.face == Face::kStatus || config_.tells || !MayStay(grant_->id)) {
    const Drawn drawn = NextToken();
    waiter.token = drawn.token;
    waiter.not_before = drawn.not_before;
  }
  waiter.hold = NextHold();
  waiter.poked = false;  // it may have to wait again, where it sleeps through its hold
  if (joined() && served_ < kOfUse) ++served_;
  if (!held()) grant_->at_risk = false;
  grant_->rests_until = base::Instant();
  ThreadHold& hold = grant_->holds.emplace_back(ThreadHold{
      .id = waiter.hold,
      .thread = waiter.thread,
      .depth = 1,
      .std_depth = waiter.face == Face::kStd ? 1U : 0U,
      .token = waiter.token,
      .began = now,
      .options = waiter.options,
  });
  if (waiter.face == Face::kStatus) {
    hold.view = std::move(waiter.view);
    waiter.view = ViewOf(hold);
  }
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
  if (config_.explicit_owner) LetOwnerIn(now, effects);
}

// The grant is free: it passes on inside the client, rests, or goes back to the server.
void LockMachine::Settle(uint64_t ended, FencingToken token, absl::Duration keep, base::Instant now,
                         Effects& effects) {
  Waiter* const head = queue_.head();
  if (head == nullptr && Rest(keep, now)) return;
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
  Bidder::Poked(waiter, now, effects);
  Expire(now, effects);
  if (waiter.state != Waiter::State::kWaiting || !grant_) return;
  if (held()) {
    grant_->retakes_left = 0;  // somebody was faster: the next one is ours
  } else if (queue_.head() == &waiter && CanPass(waiter, now)) {
    GiveToHead(now, effects);
  } else {
    Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
  }
}

// Whoever was to have it is gone.
void LockMachine::OnGivenUp(base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (grant_ && !held()) return Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
  Pursue(now);
}

bool LockMachine::KnowsWhy(const Waiter& waiter) const {
  return (grant_ && !joined()) || Bidder::KnowsWhy(waiter);
}

base::Instant LockMachine::AskedAt(const Waiter& waiter) const {
  if (!grant_) return Bidder::AskedAt(waiter);
  return joined() ? waiter.since : base::Instant::Infinite();  // whether it may join
}

}  // namespace redlatch::engine
