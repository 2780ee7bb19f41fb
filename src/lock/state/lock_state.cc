// Inside the client: who of its threads has the lock, who waits, what a release means.
#include "src/lock/state/lock_state.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "src/base/status.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {

bool LockState::MakeRoomForWaiter() noexcept try {
  if (held() && joined()) grant_->holds.reserve(grant_->holds.size() + waiting() + 1);
  return MakeRoom();
} catch (const std::bad_alloc&) {
  return false;
}

void LockState::Acquire(Waiter& waiter, base::Instant now, Effects& effects) {
  Expire(now, effects);
  OnComing(waiter, now);
  if (held()) {
    if (Enter(waiter, now, effects)) return;
    if (joined()) return Join(waiter, now, effects);
    const LocalHold* const mine = FindOf(waiter.thread);
    if (waiter.face == Face::kStd && mine != nullptr && mine->std_depth > 0) {
      return Decide(waiter, Waiter::State::kDeadlock, effects);
    }
  } else if (cached()) {
    if (TakeCached(waiter, now, effects)) return;
  } else if (grant_ && grant_->retakes_left > 0 && CanPass(waiter, now)) {
    --grant_->retakes_left;
    return GiveTo(waiter, now, effects);
  }
  const bool taken = grant_ || (pending_ && pending_->queued && !server_.silent());
  if (taken && waiter.patience == Patience::kNone) {
    return Decide(waiter, Waiter::State::kBusy, effects);
  }
  if (joined() && pending_ &&
      (pending_->acquire.attempt > 0 || pending_->acquire.terms != waiter.terms ||
       waiter.terms.manual)) {
    // What was asked for before this waiter came does not let it in, and a manual hold is one's
    // own.
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  Enqueue(waiter, now);
}

// The waiter enters the hold of its thread, or of its Owner; not a claim if it wants a whole lease.
bool LockState::Enter(Waiter& waiter, base::Instant now, Effects& effects) {
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

void LockState::LetOwnerIn(base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (Enter(*waiter, now, effects)) queue_.Remove(*waiter);
  }
}

// A grant is there, and its threads share it.
void LockState::Join(Waiter& waiter, base::Instant now, Effects& effects) {
  if (grant_->others || waiter.terms != grant_->terms || waiter.terms.manual) {
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  if (MayCache() || now < grant_->asked + waiter.options->local_window) {
    return GiveTo(waiter, now, effects);
  }
  if (grant_->recalled) {  // that another client waits is all that the server could say
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  waiter.since = now;
  queue_.Append(waiter);
  RenewNow(now);
}

// The server was asked whether readers may join, or could not be.
void LockState::LetJoin(base::Instant now, Effects& effects) {
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

bool LockState::CanPass(const Waiter& waiter, base::Instant now) const {
  const bool in_window = !grant_->others && now < grant_->asked + waiter.options->local_window;
  return (in_window || now < grant_->turn_ends || MayCache()) && !grant_->pinned &&
         waiter.terms == grant_->terms && !waiter.terms.manual && !config_.explicit_owner &&
         config_.sharing.passes_on && HasTokens();
}

LockState::Drawn LockState::NextToken() {
  const uint64_t token = grant_->next_token++;
  const auto before = static_cast<int64_t>(token - grant_->first_token);
  return {.token = FencingToken(token),
          .not_before = grant_->reserved + absl::Microseconds(before)};
}

void LockState::GiveTo(Waiter& waiter, base::Instant now, Effects& effects) {
  if (!config_.sharing.passes_on) {
    waiter.token = waiter.write_token == FencingToken() ? FencingToken(grant_->first_token)
                                                        : waiter.write_token;
  } else if (waiter.face == Face::kStatus || config_.tells || !IsCacheable(grant_->id)) {
    const Drawn drawn = NextToken();
    waiter.token = drawn.token;
    waiter.not_before = drawn.not_before;
  }
  waiter.hold = NextHold();
  waiter.awaits_wake = false;  // it may have to wait again, where it sleeps through its hold
  if (joined() && served_ < kOfUse) ++served_;
  if (!held()) grant_->at_risk = false;
  grant_->cached_until = base::Instant();
  LocalHold& hold = grant_->holds.emplace_back(LocalHold{
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

void LockState::GiveToHead(base::Instant now, Effects& effects) {
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
void LockState::Settle(uint64_t ended, FencingToken token, absl::Duration keep, base::Instant now,
                       Effects& effects) {
  Waiter* const head = queue_.head();
  if (head == nullptr && Cache(keep, now)) return;
  if (head == nullptr || !CanPass(*head, now)) {
    ReleaseGrant(ended, token, now);
    return UpdatePending(now);
  }
  if (grant_->retakes_left <= 0) return GiveToHead(now, effects);
  if (head->awaits_wake) return;
  head->awaits_wake = true;
  Wake(*head, effects);
}

void LockState::OnWoken(Waiter& waiter, base::Instant now, Effects& effects) {
  Bidder::OnWoken(waiter, now, effects);
  Expire(now, effects);
  if (waiter.state != Waiter::State::kWaiting || !grant_) return;
  if (held()) {
    grant_->retakes_left = 0;  // another thread was faster: this one is next
  } else if (queue_.head() == &waiter && CanPass(waiter, now)) {
    GiveToHead(now, effects);
  } else {
    Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
  }
}

// The waiter that was to have it has left.
void LockState::OnGivenUp(base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (grant_ && !held()) return Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
  UpdatePending(now);
}

bool LockState::KnowsWhy(const Waiter& waiter) const {
  return (grant_ && !joined()) || Bidder::KnowsWhy(waiter);
}

base::Instant LockState::AskedAt(const Waiter& waiter) const {
  if (!grant_) return Bidder::AskedAt(waiter);
  return joined() ? waiter.since : base::Instant::Infinite();  // whether it may join
}

// ---- What threads have: how a hold is entered again, ends, and is found.

std::optional<HoldRef> LockState::Reenter(uint64_t thread, Face face, bool manual,
                                          base::Instant now) {
  if (!config_.reentrant || !held() || next_expiry() <= now) return std::nullopt;
  LocalHold* const mine = config_.explicit_owner ? &grant_->holds.front() : FindOf(thread);
  if (mine == nullptr) return std::nullopt;
  LocalHold& hold = *mine;
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
  std::shared_ptr<HoldState> view = face == Face::kStatus ? ViewOf(hold) : nullptr;
  ++hold.depth;
  if (face == Face::kStd) ++hold.std_depth;
  return HoldRef{.hold = hold.id,
                 .token = hold.token,
                 .depth = hold.depth,
                 .view = std::move(view),
                 .not_before = not_before};
}

bool LockState::ReleaseInner(uint64_t thread, Face face) {
  LocalHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->depth < 2) return false;
  LocalHold& hold = *mine;
  if (face == Face::kStd) {
    if (hold.std_depth == 0) return false;
    --hold.std_depth;
  }
  --hold.depth;
  return true;
}

void LockState::EndHold(const LocalHold& hold, base::Instant now, Effects& effects) {
  if (config_.counts) tally_.held_for.Add(hold.began, now);
  if (hold.view != nullptr) hold.view->Release();
  effects.ended.push_back(hold.options);
  grant_->holds.erase(grant_->holds.begin() + (&hold - grant_->holds.data()));
}

Released LockState::ReleaseLevel(LocalHold& hold, Face face, base::Instant now, Effects& effects) {
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

Released LockState::Release(uint64_t hold, base::Instant now, Effects& effects,
                            FencingToken token) {
  Expire(now, effects);
  if (LocalHold* const current = Find(hold)) {
    // What is left of it is unlock()'s to end.
    if (current->depth == current->std_depth) return {.kind = Released::Kind::kNotHeld};
    return ReleaseLevel(*current, Face::kStatus, now, effects);
  }
  if (auto released = cleanups_.Repeat(hold, now)) return *std::move(released);
  return {.kind = Released::Kind::kLost, .hold = hold, .token = token};
}

Released LockState::Unlock(uint64_t thread, base::Instant now, Effects& effects) {
  Expire(now, effects);
  if (LocalHold* const mine = FindOf(thread); mine != nullptr && mine->std_depth > 0) {
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

void LockState::ReleaseStd(base::Instant now, Effects& effects) {
  Expire(now, effects);
  lost_std_.reset();
  may_cache_ = false;
  if (cached()) return GiveBackCached(now);
  if (!held()) return;
  for (size_t i = grant_->holds.size(); i-- > 0;) {
    LocalHold& hold = grant_->holds[i];
    hold.depth -= std::exchange(hold.std_depth, 0);
    if (hold.depth == 0) EndHold(hold, now, effects);
  }
  if (!held()) Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
}

absl::InlinedVector<uint64_t, 1> LockState::holds() const {
  absl::InlinedVector<uint64_t, 1> ids;
  if (grant_) {
    for (const LocalHold& hold : grant_->holds) ids.push_back(hold.id);
  }
  return ids;
}

const LocalHold* LockState::Find(uint64_t hold) const {
  if (!grant_) return nullptr;
  for (const LocalHold& each : grant_->holds) {
    if (each.id == hold) return &each;
  }
  return nullptr;
}

const LocalHold* LockState::FindOf(uint64_t thread) const {
  if (!grant_) return nullptr;
  for (const LocalHold& each : grant_->holds) {
    if (each.thread == thread) return &each;
  }
  return nullptr;
}

bool LockState::Valid(uint64_t hold, base::Instant now) const {
  return Find(hold) != nullptr && now < grant_->deadline;
}

base::Instant LockState::Deadline(uint64_t hold) const {
  return Find(hold) != nullptr ? grant_->deadline : base::Instant();
}

std::shared_ptr<HoldState> LockState::ViewOf(LocalHold& hold) const {
  if (hold.view == nullptr) hold.view = std::make_shared<HoldState>();
  hold.view->Prolong(grant_->deadline);
  hold.view->SetAckedBy(grant_->acked_by);
  return hold.view;
}

std::shared_ptr<HoldState> LockState::ViewOf(uint64_t thread) {
  if (LocalHold* const mine = FindOf(thread)) return ViewOf(*mine);
  if (lost_std_ == nullptr) return nullptr;
  for (const LostStd& lost : *lost_std_) {
    if (lost.thread == thread) return lost.view;
  }
  return nullptr;
}

HoldRef LockState::Pin(uint64_t thread) {
  LocalHold* const mine = FindOf(thread);
  base::Instant not_before;
  if (mine != nullptr) {
    grant_->pinned = true;
    if (mine->token == FencingToken()) {
      const Drawn drawn = NextToken();
      mine->token = drawn.token;
      not_before = drawn.not_before;
    }
  }
  HoldRef held = OfThread(thread);
  held.not_before = not_before;
  return held;
}

HoldRef LockState::OfThread(uint64_t thread) const {
  if (const LocalHold* const mine = FindOf(thread)) {
    return {.hold = mine->id, .token = mine->token, .depth = mine->depth, .grant = grant_->id};
  }
  if (lost_std_ == nullptr) return {};
  for (const LostStd& lost : *lost_std_) {
    if (lost.thread == thread) return {.hold = lost.hold, .token = lost.token};
  }
  return {};
}

// ---- A grant that no thread has, and that stays with the client.

namespace {

// Threads that are away for no more than this part of a turn are worth waiting for.
constexpr int kPartsOfATurn = 16;
// With fewer tokens than that, a grant that stays is renewed, and so gets more.
constexpr uint64_t kFewTokens = 2048;

}  // namespace

// Threads that came back soon are expected to do so again.
void LockState::OnComing(const Waiter& waiter, base::Instant now) {
  may_cache_ = waiter.object != nullptr;
  const absl::Duration turn = waiter.options->turn;
  if (turn > absl::ZeroDuration() && taken_at_ != base::Instant()) {
    comes_again_ = now - taken_at_ <= Scaled(turn, 1, kPartsOfATurn);
  }
}

// Whether no other client has asked for it: then it stays as long as it is renewed. A lock that
// came by message, from a client that may want it back, stays once the server has confirmed it.
// Reads that writers call back again and again stay if they are of use in between.
bool LockState::MayCache() const {
  return IsCacheable(grant_->id) && subscribed_ && !grant_->others && !grant_->recalled &&
         !grant_->tried && !grant_->forced &&
         (joined() ? serves_ || served_ >= kOfUse : !grant_->claimed);
}

// No thread waits here. False: it goes back to the server. In a turn it stays only as a claim,
// which the server soon frees if this process ends; with `keep`, the user accepts a whole lease.
bool LockState::Cache(absl::Duration keep, base::Instant now) {
  if (!joined()) taken_at_ = now;  // readers keep no reader out
  Grant& grant = *grant_;
  const bool cacheable = MayCache();
  const bool brief = grant.claimed || IsCacheable(grant.id) || grant.terms.lease <= kShortestClaim;
  const bool in_turn = comes_again_ && now < grant.turn_ends && HasTokens() && brief;
  if (!may_cache_ || (!cacheable && !in_turn) || grant.deadline <= now || grant.pinned ||
      grant.terms.manual || grant.terms.acks.any() || config_.explicit_owner ||
      config_.sharing.counts) {
    return false;
  }
  grant.cached_until = cacheable ? now + keep : grant.turn_ends;
  grant.recallable |= cacheable;
  const bool draws = config_.sharing.passes_on && grant.next_token > grant.first_token;
  if (cacheable && draws && grant.last_token < grant.next_token + kFewTokens && !grant.renewing &&
      grant.failures == 0) {
    RenewNow(now);
  }
  return true;
}

// True: there is nothing left to be asked of the server for it.
bool LockState::TakeCached(Waiter& waiter, base::Instant now, Effects& effects) {
  const bool joins = joined() && MayCache() && waiter.terms == grant_->terms;
  if (joins || CanPass(waiter, now)) {
    GiveTo(waiter, now, effects);
    return true;
  }
  if (!joined() && MayCache() && !HasTokens() && waiter.terms == grant_->terms &&
      grant_->failures == 0) {
    waiter.since = now;
    queue_.Append(waiter);
    if (!grant_->renewing) RenewNow(now);
    return true;
  }
  GiveBackCached(now);
  return false;
}

void LockState::GiveBackCached(base::Instant now) {
  ReleaseGrant(0, FencingToken(), now);
  UpdatePending(now);
}

void LockState::OnRecall(GrantId grant, base::Instant now, bool tried) {
  if (tried) tried_s = SecondOf(now);
  if (pending_ && pending_->acquire.grant == grant) {  // heard before its answer
    pending_->recalled = pending_->exposed = true;
  }
  if (!Has(grant) || grant_->recalled) return;
  grant_->recalled = true;
  if (joined()) {
    serves_ = served_ >= kOfUse;
    served_ = 0;
  } else {
    grant_->asked = now;  // a last window for the threads that are here
  }
  if (!cached()) return;
  if (grant_->turn_ends <= now) return GiveBackCached(now);
  grant_->cached_until = grant_->turn_ends;
}

void LockState::OnUnsubscribed(base::Instant now) {
  subscribed_ = false;
  if (!cached()) return;
  if (grant_->turn_ends <= now) return GiveBackCached(now);
  grant_->cached_until = std::min(grant_->cached_until, grant_->turn_ends);
}

void LockState::OnTooManyCached(base::Instant now) {
  if (cached()) GiveBackCached(now);
}

bool LockState::TakeCachedNow(uint64_t thread, const std::shared_ptr<const LockOptions>& options,
                              base::Instant now) {
  if (!grant_ || !queue_.empty() || grant_->lost_at <= now || config_.tells) return false;
  // Readers come beside others that read.
  if (!cached() && (!joined() || !held() || FindOf(thread) != nullptr)) return false;
  Grant& grant = *grant_;
  const Terms& terms = grant.terms;
  if (!MayCache() || (!joined() && !HasTokens()) || terms.lease != options->lease || terms.manual ||
      terms.whole || terms.args || options->keep <= absl::ZeroDuration() ||
      options->keep > terms.lease || options->replica_acks != 0 || options->fsync) {
    return false;
  }
  if (cached()) grant.at_risk = false;
  grant.cached_until = base::Instant();
  if (joined() && served_ < kOfUse) ++served_;
  grant.holds.emplace_back(
      LocalHold{.id = NextHold(),
                .thread = thread,
                .depth = 1,
                .std_depth = 1,
                .token = joined() ? FencingToken(grant.first_token) : FencingToken(),
                .began = now,
                .options = options});
  if (config_.counts) tally_.waited.Add(now, now);
  return true;
}

bool LockState::LeaveCachedNow(uint64_t thread, base::Instant now,
                               std::shared_ptr<const LockOptions>& ended) {
  if (!held() || !queue_.empty() || grant_->lost_at <= now) return false;
  LocalHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->depth != 1 || mine->std_depth != 1 || mine->view != nullptr ||
      config_.tells || !MayCache()) {
    return false;
  }
  const bool last = grant_->holds.size() == 1;
  if (last && !Cache(mine->options->keep, now)) return false;
  if (config_.counts) tally_.held_for.Add(mine->began, now);
  ended = std::move(mine->options);
  grant_->holds.erase(grant_->holds.begin() + (mine - grant_->holds.data()));
  return true;
}

std::optional<LockState::Drawn> LockState::Draw(uint64_t thread, base::Instant now) {
  LocalHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->token != FencingToken() || grant_->deadline <= now ||
      !config_.sharing.passes_on || !HasTokens()) {
    return std::nullopt;
  }
  const Drawn drawn = NextToken();
  mine->token = drawn.token;
  return drawn;
}

// ---- The server's word that the lock is ours: by the answer to a bid, or by message.

void LockState::OnGrantMessage(const NewGrant& news, base::Instant asked, base::Instant now,
                               Effects& effects) {
  const Terms& terms = pending_->acquire.terms;
  const absl::Duration claim = std::min(news.claim, terms.lease);
  const base::Instant deadline = asked + (claim - DriftMargin(claim));
  const bool late = deadline < now + Scaled(claim, 1, 4);
  const bool odd = config_.sharing.passes_on && news.token < std::max(last_token_, uint64_t{1});
  if (late || odd || terms.manual || terms.whole || terms.acks.any()) {
    return ConfirmFirst(now, effects);
  }
  OnGranted(news, {.lease = claim, .asked = asked, .claim = true}, now, effects);
}

void LockState::OnGranted(const NewGrant& news, const Basis& basis, base::Instant now,
                          Effects& effects) {
  PendingAcquire& pending = *pending_;
  const base::Instant deadline = basis.asked + (basis.lease - DriftMargin(basis.lease));
  if (deadline <= now) {  // too late to be used; asking again gives the grant its lease anew
    pending.queued = true;
    pending.due = now + Spread(kFirstBackoff / 10, kLongestBackoff, pending.failures++,
                               pending.acquire.grant);
    return;
  }
  const Terms terms = pending.acquire.terms;
  const uint64_t last_token = news.token + pending.acquire.block - 1;
  last_token_ = news.token;
  grant_.emplace(Grant{
      .id = news.grant,
      .terms = terms,
      .attempt = news.attempt,
      .claimed = basis.claim,
      .others = news.others > 0,
      .queued = pending.queued,
      .tried = SecondOf(now) - tried_s <= kNotKeptSeconds,
      .extends = terms.manual,
      // The attempt that the grant echoes was executed, whenever its own answer comes.
      .in_flight = pending.in_flight && news.attempt < pending.acquire.attempt,
      .uncertain = pending.uncertain,
      .claim = basis.claim ? basis.lease : absl::ZeroDuration(),
      .deadline = deadline,
      .lost_at = deadline - ExpiryLead(terms.lease),
      .server_expires = now + basis.lease,
      .asked = basis.asked,
      .turn_ends = (pending.queued || news.others > 0) && config_.sharing.passes_on &&
                           !config_.explicit_owner
                       ? now + queue_.head()->options->turn
                       : base::Instant(),
      // Tokens that are not handed out one by one are not given back either.
      .next_token = config_.sharing.passes_on ? news.token : last_token + 1,
      .last_token = last_token,
      .first_token = news.token,
      // They were reserved by now, by whichever command: counting from the sending of one would let
      // them run ahead of the server's clock.
      .reserved = now,
      .renew_due = basis.claim ? now + ConfirmAfter(basis.lease) : RenewDue(terms, basis.asked),
  });
  if (pending.queued) {
    usual_wait_ = std::max(Scaled(usual_wait_, 7, 8), now - pending.began);
  }
  if (pending.recalled) OnRecall(news.grant, now);
  if (pending.forced) {
    grant_->forced = true;
    RenewNow(now);
  }
  pending_.reset();
  if (config_.sharing.passes_on && !config_.explicit_owner) handover_check_.Clear();
  ++tally_.granted;
  GiveToHead(now, effects);
  RefuseImpatient(effects);
  // A client may hold very many locks, and release none of them for long.
  if (queue_.empty() && !released_once_) cleanups_.DropRoom();
}

// The answer to a bid that a message has granted meanwhile.
bool LockState::OnLateResult(const Bade& bade, const Result& result, base::Instant now,
                             Effects& effects) {
  if (!Has(bade.acquire.grant)) return false;
  Grant& grant = *grant_;
  grant.in_flight = false;
  if (const Failed* const failed = result.failed()) {
    grant.uncertain |= failed->may_have_executed;
  } else if (const auto* const granted = std::get_if<AcquireGranted>(&result.acquire())) {
    if (!grant.terms.acks.any()) Prolong(bade.sent, granted->lease, now);
    grant.asked = bade.sent;
    grant.others = granted->others > 0;
    if (grant.claimed && granted->lease >= grant.terms.lease) {
      grant.claimed = false;
      grant.renew_due = RenewDue(grant.terms, bade.sent);
    }
  } else if (std::holds_alternative<AcquireQueued>(result.acquire()) &&
             bade.acquire.attempt > grant.attempt) {
    // AcquireQueued after a grant that echoes an earlier attempt: the grant was over by then.
    // The release takes it from the queue, or ends a hold whose tokens are not known here.
    grant.uncertain = true;
    Lose("the server no longer had it: its lease had expired there, or its release was forced", now,
         now, effects);
  }
  return true;
}

// ---- What the client has at the server: kept, given back, or lost.

namespace {

// In so long others may have come.
constexpr absl::Duration kLongSection = absl::Milliseconds(1);

constexpr char kForcedReason[] = "someone forced its release, as redlatch break does";
constexpr char kGoneReason[] =
    "the server no longer has it: its lease expired there, the server lost its data, or something "
    "overwrote it";

}  // namespace

void LockState::ReleaseGrant(uint64_t hold, FencingToken token, base::Instant now) {
  AddCleanup({.hold = hold,
              .due = now,
              .releases = true,
              .outcome = {.kind = Released::Kind::kUnderWay,
                          .hold = hold,
                          .token = hold != 0 ? token : FencingToken(grant_->next_token - 1)}},
             now);
}

// `debt` tells why; the rest is the grant's.
void LockState::AddCleanup(PendingCleanups::PendingCleanup cleanup, base::Instant now) {
  released_once_ = true;
  const Grant& grant = *grant_;
  const absl::Duration lease = grant.terms.lease;
  const bool tombstone = grant.in_flight || grant.uncertain;
  // See lua/common/give_back_kept.lua.
  const bool unheard =
      IsCacheable(grant.id) && config_.sharing.passes_on && (grant.renewing || grant.failures > 0);
  uint64_t last_used = grant.next_token - 1;
  // To give back one unused token is not worth more than a plain release.
  if (grant.last_token == grant.first_token && !unheard) last_used = grant.last_token;
  const bool waited_for =
      grant.others || grant.queued || grant.recalled || now - grant.reserved > kLongSection;
  cleanup.request = {
      .what = ReleaseRequest{.tombstone = tombstone,
                             // Not where it asks again and again: that is load enough.
                             .awaited = waited_for && !asks_at_once_,
                             .last_used = last_used,
                             .last_reserved = unheard ? 0 : grant.last_token},
      .grant = grant.id,
      .lease = lease};
  if (grant.others || (joined() && grant.recalled)) handed_at_ = now;
  cleanup.deadline = grant.deadline;
  // What is on its way may still be executed: a renewal, or a bid, which brings the grant back.
  cleanup.expires = grant.server_expires;
  if (grant.renewing || grant.terms.acks.any()) {
    cleanup.expires = std::max(cleanup.expires, now + lease);
  }
  if (tombstone) {
    cleanup.expires =
        std::max(cleanup.expires, now + LongestAbandoned(lease, config_.longest_heartbeat));
  }
  cleanups_.Add(std::move(cleanup));
  grant_.reset();
  if (!joined()) taken_at_ = now;  // readers keep no reader out
}

// It is released in any case: where the server says that the grant is gone, a bid that was on its
// way may have brought it back since.
void LockState::Lose(const std::string& reason, base::Instant release_at, base::Instant now,
                     Effects& effects) {
  auto holds = std::move(grant_->holds);
  AddCleanup({.due = release_at}, now);
  for (LocalHold& hold : holds) {
    ++tally_.lost;
    if (config_.counts) tally_.held_for.Add(hold.began, now);
    // current() shows it until unlock().
    if (hold.std_depth > 0 && hold.view == nullptr) hold.view = std::make_shared<HoldState>();
    if (hold.view != nullptr) hold.view->Lose();
    if (hold.std_depth > 0) {
      if (lost_std_ == nullptr) lost_std_ = std::make_unique<std::vector<LostStd>>();
      lost_std_->push_back({.thread = hold.thread,
                            .hold = hold.id,
                            .token = hold.token,
                            .depth = hold.std_depth,
                            .view = hold.view});
    }
    if (!hold.unconfirmed) effects.losses.push_back({.hold = std::move(hold), .reason = reason});
  }
  UpdatePending(now);
}

void LockState::Expire(base::Instant now, Effects& effects) {
  if (now < next_expiry()) return;
  std::string reason =
      grant_->claimed ? "its hand-over was not confirmed in time" : "its lease expired";
  if (!grant_->last_failure.ok()) {
    reason += ", because it could not be renewed: " + std::string(grant_->last_failure.message());
  } else if (!grant_->terms.manual) {
    reason += ": this process was not running in time, or the server was silent";
  }
  if (held()) blocked_until_ = grant_->deadline;
  Lose(reason, std::max(now, blocked_until_), now, effects);
}

std::optional<Request> LockState::Extend(uint64_t hold, absl::Duration lease, base::Instant now) {
  if (!Valid(hold, now) || !grant_->extends) return std::nullopt;
  return Renewal(lease, now);
}

Request LockState::Renewal(absl::Duration lease, base::Instant now) const {
  RenewRequest what{
      .acks = grant_->terms.acks, .deadline = grant_->deadline, .last_token = grant_->last_token};
  if (what.acks.any()) what.patience = grant_->holds.front().options->ack_timeout;
  return Request{.what = what, .grant = grant_->id, .lease = lease, .sent = now};
}

std::optional<Request> LockState::Confirm(uint64_t hold, base::Instant by, base::Instant now) {
  if (!Valid(hold, now) || grant_->acked) return std::nullopt;
  for (LocalHold& each : grant_->holds) each.unconfirmed = each.unconfirmed || each.id == hold;
  Request request = Renewal(grant_->terms.lease, now);
  absl::Duration& patience = std::get<RenewRequest>(request.what).patience;
  patience = std::min(patience, std::max(by - now, absl::Milliseconds(1)));
  return request;
}

void LockState::Prolong(base::Instant sent, absl::Duration lease, base::Instant now) {
  grant_->deadline = std::max(grant_->deadline, sent + (lease - DriftMargin(lease)));
  grant_->lost_at = grant_->deadline - ExpiryLead(grant_->terms.lease);
  for (const LocalHold& hold : grant_->holds) {
    if (hold.view != nullptr) hold.view->Prolong(grant_->deadline);
  }
  grant_->server_expires = std::max(grant_->server_expires, now + lease);
}

void LockState::OnHeld(const Request& request, const StillHeld& result, bool extension,
                       base::Instant now, Effects& effects) {
  Grant& grant = *grant_;
  Prolong(request.sent, request.lease, now);
  grant.last_failure = absl::OkStatus();
  if (result.acked) {
    grant.acked = true;
    grant.acked_by = result.acked_by;
    for (LocalHold& hold : grant.holds) {
      hold.unconfirmed = false;
      if (hold.view != nullptr) hold.view->SetAckedBy(result.acked_by);
    }
  }
  if (extension) return;
  grant.last_token = std::max(grant.last_token, result.last_token);
  const FencingToken token = held() ? grant.holds.front().token : FencingToken();
  if (TellsOfRenewals()) {
    ++tally_.renewed;
    effects.notices.push_back({.kind = Notice::Kind::kRenewed, .token = token});
  }
  if (grant.at_risk) {
    effects.notices.push_back({.kind = Notice::Kind::kRecovered, .token = token});
  }
  grant.at_risk = false;
  grant.claimed = grant.claimed && request.lease < grant.terms.lease;
  grant.renew_due = grant.claimed ? request.sent + Scaled(grant.claim, 1, 3)
                                  : RenewDue(grant.terms, request.sent);
  if (grant.again) grant.renew_due = now;
  grant.failures = 0;
  if (IsCacheable(grant.id) && result.others > 0) OnRecall(grant.id, now);
  if (cached() && !queue_.empty()) {  // it may have tokens now
    return CanPass(*queue_.head(), now) ? GiveToHead(now, effects) : GiveBackCached(now);
  }
  if (config_.explicit_owner && held()) LetOwnerIn(now, effects);
  if (!joined() || !grant_) return;
  grant.asked = request.sent;
  grant.others = result.others > 0;
  LetJoin(now, effects);
}

void LockState::OnRenewal(const Request& request, const Result& result, base::Instant now,
                          Effects& effects) {
  const auto* const held = std::get_if<StillHeld>(&result.what);
  const Failed* const failed = result.failed();
  const bool may_have_executed = failed != nullptr && failed->may_have_executed;
  if (!Has(request.grant)) {
    // It was released meanwhile, and then or later the server gave it its lease anew.
    if (held != nullptr || may_have_executed) {
      cleanups_.Prolong(request.grant, now + request.lease);
    }
    return;
  }
  Grant& grant = *grant_;
  const bool extension = grant.terms.manual && request.lease != kCheckOnly;
  if (!extension) grant.renewing = false;
  if (held != nullptr) return OnHeld(request, *held, extension, now, effects);
  if (failed == nullptr) {
    return Lose(grant.forced ? kForcedReason : kGoneReason, now, now, effects);
  }
  if (absl::IsFailedPrecondition(failed->why) && !failed->not_sent) {
    return Lose(std::string(failed->why.message()), now, now, effects);
  }
  if (may_have_executed) {
    grant.server_expires = std::max(grant.server_expires, now + request.lease);
  }
  if (extension) return;
  grant.renew_due =
      now + Spread(std::min(kFirstBackoff, grant.terms.lease / 10),
                   std::min(kLongestBackoff, grant.terms.lease / 10), grant.failures++, grant.id);
  if (grant.again) grant.renew_due = now;
  grant.last_failure = base::Unshared(failed->why);
  if (cached() && !queue_.empty()) return GiveBackCached(now);
  if (joined()) LetJoin(now, effects);
  if (!TellsOfRenewals()) return;
  ++tally_.renewals_failed;
  if (grant.at_risk) return;
  grant.at_risk = true;
  effects.notices.push_back({.kind = Notice::Kind::kAtRisk,
                             .token = grant.holds.front().token,
                             .remaining = grant.deadline - now,
                             .why = base::Unshared(failed->why)});
}

// The server's answer tells what is so now.
void LockState::OnForced(GrantId grant, base::Instant now) {
  if (Has(grant)) {
    grant_->forced = true;
    RenewNow(now);
  }
  Bidder::OnForced(grant, now);
}

void LockState::RenewNow(base::Instant now) {
  grant_->renew_due = now;
  grant_->again = grant_->renewing;
}

// ---- Scripts: which is due, and what becomes of their answers.

std::optional<Request> LockState::NextRequest(base::Instant now, absl::Duration early) {
  if (std::optional<Request> request = Bidder::NextRequest(now, early)) return request;
  if (cached() && grant_->cached_until <= now) {
    GiveBackCached(now);
    return NextRequest(now, early);
  }
  if (!grant_ || grant_->renewing || grant_->deadline <= now ||
      now + Early(early) < grant_->renew_due) {
    return std::nullopt;
  }
  if (!held() && !cached()) {  // no waiter has come: other clients are not kept waiting
    ReleaseGrant(0, FencingToken(), now);
    UpdatePending(now);
    return NextRequest(now, early);
  }
  grant_->renewing = true;
  grant_->again = false;
  if (grant_->terms.manual) {
    return Request{.what = RenewRequest(), .grant = grant_->id, .lease = kCheckOnly, .sent = now};
  }
  // In the client's turn, a lock that threads use only for moments stays a claim: see Rest().
  const bool brief = grant_->claimed && now < grant_->turn_ends &&
                     (cached() || now - grant_->holds.back().began < ConfirmAfter(grant_->claim));
  return Renewal(brief ? grant_->claim : grant_->terms.lease, now);
}

std::optional<Request> LockState::NextRequestOf(uint64_t hold, base::Instant now) {
  auto due = cleanups_.NextOf(hold, now);
  if (!due) return std::nullopt;
  return WithAcquire(*std::move(due), now);
}

std::optional<Request> LockState::NextRelease(base::Instant now) {
  if (pending_) return std::nullopt;
  auto due = cleanups_.NextUnasked(now);
  if (!due) return std::nullopt;
  return std::move(due->request);
}

bool LockState::IsWanted(const Request& request) const {
  if (std::holds_alternative<RenewRequest>(request.what)) return Has(request.grant);
  return Bidder::IsWanted(request);
}

void LockState::OnResult(const Request& request, const Result& result, base::Instant now,
                         Effects& effects) {
  Expire(now, effects);
  if (!std::holds_alternative<RenewRequest>(request.what)) {
    return Bidder::OnResult(request, result, now, effects);
  }
  if (result.failed() == nullptr) server_.Heard(now);
  OnRenewal(request, result, now, effects);
  if (result.unsubscribed) OnUnsubscribed(now);
}

// How much sooner than due a renewal may be; a confirmation is spared if the grant ends before it.
absl::Duration LockState::Early(absl::Duration early) const {
  return grant_->claimed ? absl::ZeroDuration()
                         : std::min(early, Scaled(grant_->terms.lease, 1, 32));
}

void LockState::CheckHandoverAfter(absl::Duration check_after, base::Instant now,
                                   absl::Duration later) {
  // The current owner proves what was before; an Owner does not, because it may have other holds.
  if (grant_ && config_.sharing.passes_on && !config_.explicit_owner) return;
  Bidder::CheckHandoverAfter(check_after, now, later);
}

void LockState::OnReconnected(base::Instant now) {
  if (grant_) RenewNow(now);
  Bidder::OnReconnected(now);
}

base::Instant LockState::next_request_at() const {
  base::Instant next = Bidder::next_request_at();
  if (cached()) next = std::min(next, grant_->cached_until);
  const bool renews = grant_ && !grant_->renewing && grant_->renew_due < next_expiry();
  return renews ? std::min(next, grant_->renew_due) : next;
}

base::Instant LockState::next_expiry() const {
  return grant_ ? grant_->lost_at : base::Instant::Infinite();
}

uint64_t LockState::releasing() const {
  const uint64_t holds = grant_ && !held() && !cached() ? 1 : 0;
  return holds + cleanups_.releasing();
}

void LockState::AddStateTo(LockStats& stats) const {
  Bidder::AddStateTo(stats);
  stats.releasing += releasing();
  stats.released -= releasing();
  stats.held += grant_ ? grant_->holds.size() : 0;
  if (config_.sharing.counts) stats.permits += permits();
}

}  // namespace redlatch::internal
