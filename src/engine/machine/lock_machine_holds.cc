// What threads have: how a hold is entered again, ends, and is found.
#include <cstddef>
#include <utility>

#include "src/engine/machine/lock_machine.h"

namespace redlatch::engine {

std::optional<Held> LockMachine::Reenter(uint64_t thread, Face face, bool manual,
                                         base::Instant now) {
  if (!config_.reentrant || !held() || next_expiry() <= now) return std::nullopt;
  ThreadHold* const mine = config_.explicit_owner ? &grant_->holds.front() : FindOf(thread);
  if (mine == nullptr) return std::nullopt;
  ThreadHold& hold = *mine;
  if (grant_->terms.manual && !manual) {  // it must no longer end with the manual lease
    grant_->terms.manual = false;
    RenewNow(now);
  }
  base::Instant not_before;
  if (face == Face::kStatus && hold.token == FencingToken() && config_.sharing.passes_on) {
    const Drawn drawn = NextToken();
    hold.token = drawn.token;
    not_before = drawn.not_before;
  }
  std::shared_ptr<HoldView> view = face == Face::kStatus ? ViewOf(hold) : nullptr;
  ++hold.depth;
  if (face == Face::kStd) ++hold.std_depth;
  return Held{.hold = hold.id,
              .token = hold.token,
              .depth = hold.depth,
              .view = std::move(view),
              .not_before = not_before};
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
  const absl::Duration keep = hold.options->keep;
  EndHold(hold, now, effects);
  if (held()) return released;
  Settle(released.hold, released.token, keep, now, effects);
  if (!grant_) released.kind = Released::Kind::kUnderWay;
  return released;
}

Released LockMachine::Release(uint64_t hold, base::Instant now, Effects& effects,
                              FencingToken token) {
  Expire(now, effects);
  if (ThreadHold* const current = Find(hold)) {
    // What is left of it is unlock()'s to end.
    if (current->depth == current->std_depth) return {.kind = Released::Kind::kNotHeld};
    return ReleaseLevel(*current, Face::kStatus, now, effects);
  }
  if (auto released = debts_.Repeat(hold, now)) return *std::move(released);
  return {.kind = Released::Kind::kLost, .hold = hold, .token = token};
}

Released LockMachine::Unlock(uint64_t thread, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (ThreadHold* const mine = FindOf(thread); mine != nullptr && mine->std_depth > 0) {
    return ReleaseLevel(*mine, Face::kStd, now, effects);
  }
  if (lost_std_ == nullptr) return {.kind = Released::Kind::kNotHeld};
  for (auto lost = lost_std_->begin(); lost != lost_std_->end(); ++lost) {
    if (lost->thread != thread) continue;
    Released released{.kind = Released::Kind::kLost, .hold = lost->hold, .token = lost->token};
    if (--lost->depth == 0) lost_std_->erase(lost);
    if (lost_std_->empty()) lost_std_.reset();
    return released;
  }
  return {.kind = Released::Kind::kNotHeld};
}

void LockMachine::ReleaseStd(base::Instant now, Effects& effects) {
  Expire(now, effects);
  lost_std_.reset();
  may_rest_ = false;
  if (resting()) return EndRest(now);
  if (!held()) return;
  for (size_t i = grant_->holds.size(); i-- > 0;) {
    ThreadHold& hold = grant_->holds[i];
    hold.depth -= std::exchange(hold.std_depth, 0);
    if (hold.depth == 0) EndHold(hold, now, effects);
  }
  if (!held()) Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
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
  if (hold.view == nullptr) hold.view = std::make_shared<HoldView>();
  hold.view->Prolong(grant_->deadline);
  hold.view->SetAckedBy(grant_->acked_by);
  return hold.view;
}

std::shared_ptr<HoldView> LockMachine::ViewOf(uint64_t thread) {
  if (ThreadHold* const mine = FindOf(thread)) return ViewOf(*mine);
  if (lost_std_ == nullptr) return nullptr;
  for (const LostStd& lost : *lost_std_) {
    if (lost.thread == thread) return lost.view;
  }
  return nullptr;
}

Held LockMachine::Pin(uint64_t thread) {
  ThreadHold* const mine = FindOf(thread);
  base::Instant not_before;
  if (mine != nullptr) {
    grant_->pinned = true;
    if (mine->token == FencingToken()) {
      const Drawn drawn = NextToken();
      mine->token = drawn.token;
      not_before = drawn.not_before;
    }
  }
  Held held = OfThread(thread);
  held.not_before = not_before;
  return held;
}

Held LockMachine::OfThread(uint64_t thread) const {
  if (const ThreadHold* const mine = FindOf(thread)) {
    return {.hold = mine->id, .token = mine->token, .depth = mine->depth, .grant = grant_->id};
  }
  if (lost_std_ == nullptr) return {};
  for (const LostStd& lost : *lost_std_) {
    if (lost.thread == thread) return {.hold = lost.hold, .token = lost.token};
  }
  return {};
}

}  // namespace redlatch::engine
