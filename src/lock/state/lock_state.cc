#include "src/lock/state/lock_state.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

constexpr uint32_t kBlock = 4096;  // tokens that a client reserves for its threads
constexpr absl::Duration kFirstPoll = absl::Milliseconds(50);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(500);
constexpr absl::Duration kAfterOwnRelease = absl::Milliseconds(2);
constexpr absl::Duration kLongAfterOwnRelease = absl::Milliseconds(64);
// A grant is cached for threads that are expected back within this part of a turn.
constexpr int kPartsOfATurn = 8;
// A cached grant with fewer tokens than this is renewed to get more.
constexpr uint64_t kFewTokens = 2048;
constexpr uint16_t kShortestPause = 4;
constexpr uint32_t kMostChecks = 4;  // then a waiter's next heartbeat takes over
// Waiters nearer to the head than this ask when the present grant's lease ends, one after the other
// at this interval, since those before them may be dead.
constexpr int64_t kNearHead = 16;
constexpr absl::Duration kAsksAfterNext = absl::Milliseconds(20);

constexpr char kForcedReason[] = "someone forced its release, as redlatch break does";
constexpr char kGoneReason[] =
    "the server no longer has it: its lease expired there, the server lost its data, or something "
    "overwrote it";

uint64_t Micros(absl::Duration time) {
  return static_cast<uint64_t>(absl::ToInt64Microseconds(time));
}

bool MayPass(const absl::Status& failure, bool queued) {
  return absl::IsUnavailable(failure) || (queued && absl::IsResourceExhausted(failure));
}

}  // namespace

// ---- Between threads: which one has the lock, which ones wait, and what a release means.

bool LockState::MakeRoom(bool for_reader) noexcept try {
  cleanups_.MakeRoom();
  if (for_reader) grant_->holds.reserve(grant_->holds.size() + waiting() + 1);
  const auto by_lock = [](const LocalHold& hold) { return hold.std_depth > 0; };
  if (!held() || std::ranges::none_of(grant_->holds, by_lock)) return true;
  if (lost_std_ == nullptr) lost_std_ = std::make_unique<std::vector<LocalHold>>();
  lost_std_->reserve(lost_std_->size() + grant_->holds.size());
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void LockState::Acquire(Waiter& waiter, base::Instant now, Effects& effects) {
  if (!MakeRoom(/*for_reader=*/grant_ && shared())) {
    waiter.failure = base::NoMemory();
    return Refuse(waiter, Waiter::State::kFailed);
  }
  if (latch()) return Enqueue(waiter, now);
  Expire(now, effects);
  may_cache_ = waiter.object != nullptr;
  turn_ = waiter.turn;
  if (left_at_ != base::Instant()) NoteReturn(now);
  if (held()) {
    if (Enter(waiter, now, effects)) return;
    if (shared()) return Join(waiter, now, effects);
    const LocalHold* const mine = FindOf(waiter.thread);
    if (waiter.face == Face::kStd && mine != nullptr && mine->std_depth > 0) {
      return Decide(waiter, Waiter::State::kDeadlock, effects);
    }
  } else if (cached()) {
    if (TakeCached(waiter, now, effects)) return;
  } else if (grant_ && CanPass(waiter, now)) {
    --grant_->retakes_left;
    return GiveTo(waiter, now, effects);
  }
  const bool taken = grant_ || now + kAnswerGrace < blocked_until() ||
                     (pending_ && pending_->queued && !server_.silent());
  if (taken && waiter.wait_limit == WaitLimit::kNone) {
    return Decide(waiter, Waiter::State::kBusy, effects);
  }
  if (shared() && pending_ && !MayJoinRequest(waiter, now)) {
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  Enqueue(waiter, now);
  TellIfWanted(effects);
}

// The waiter enters the hold of its thread or of its Owner. A waiter that needs a whole lease does
// not enter a claim.
bool LockState::Enter(Waiter& waiter, base::Instant now, Effects& effects) {
  if (config_.explicit_owner && grant_->claimed && waiter.wait_limit != WaitLimit::kNone &&
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

// Returns true if the reader may wait for the pending request. A request that was first sent before
// the reader came lets it in only for a turn. A hold that ends by itself is never shared.
bool LockState::MayJoinRequest(const Waiter& waiter, base::Instant now) const {
  const bool in_turn =
      pending_->acquire.attempt == 0 || now < pending_->first_sent + FreeTurn(*waiter.options);
  return in_turn && pending_->acquire.terms == waiter.terms && !waiter.terms.ends();
}

// The waiter joins the holds under a shared grant.
void LockState::Join(Waiter& waiter, base::Instant now, Effects& effects) {
  if (grant_->others || waiter.terms != grant_->terms || waiter.terms.ends()) {
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  if (MayCache() || now < grant_->asked + FreeTurn(*waiter.options)) {
    return GiveTo(waiter, now, effects);
  }
  if (grant_->recalled) {  // the server could only say again that another client waits
    return Decide(waiter, Waiter::State::kElsewhere, effects);
  }
  waiter.since = now;
  queue_.Append(waiter);
  RenewNow(now);
}

// The server has been asked whether readers may join, or did not answer.
void LockState::LetJoin(base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    const bool open = grant_->failures == 0 && !grant_->others;
    if (open && grant_->asked < waiter->since &&
        grant_->asked + FreeTurn(*waiter->options) <= now) {
      grant_->renew_due = now;  // the result is older than the question
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
  const bool in_free_turn = !grant_->others && now < grant_->asked + FreeTurn(*waiter.options);
  return (in_free_turn || now < grant_->turn_ends || MayCache()) && !grant_->pinned && !exits_ &&
         waiter.terms == grant_->terms && !waiter.terms.manual && !config_.explicit_owner &&
         exclusive() && HasTokens();
}

// Draws a token for the hold, unless it has one or the grant has none left. Returns when it may
// first be used.
base::Instant LockState::Draw(LocalHold& hold, base::Instant now) {
  if (hold.token != FencingToken() || grant_->deadline <= now || !exclusive() || !HasTokens()) {
    return base::Instant();
  }
  const uint64_t token = grant_->next_token++;
  hold.token = FencingToken(token);
  const auto before = static_cast<int64_t>(token - grant_->first_token);
  return grant_->reserved + absl::Microseconds(before);
}

LocalHold& LockState::BeginHold(LocalHold hold, base::Instant waited_since) {
  if (shared() && served_ < kOfUse) ++served_;
  if (!held()) grant_->at_risk = false;
  grant_->cached_until = base::Instant();
  if (config_.counts) tally_.waited.Add(waited_since, hold.began);
  hold.id = NextHold();
  hold.depth = 1;
  LocalHold& begun = grant_->holds.emplace_back(std::move(hold));
  if (grant_->terms.bounded) EndWithHold();
  return begun;
}

void LockState::GiveTo(Waiter& waiter, base::Instant now, Effects& effects) {
  const bool std = waiter.face == Face::kStd;
  LocalHold& hold = BeginHold({.thread = waiter.thread,
                               .std_depth = std ? 1U : 0U,
                               .token = waiter.write_token,
                               .began = now,
                               .options = waiter.options,
                               .view = std::move(waiter.view)},
                              waiter.began);
  if (!exclusive()) {
    if (hold.token == FencingToken()) hold.token = FencingToken(grant_->first_token);
  } else if (!std || config_.tells_token || !grant_->terms.cacheable) {
    waiter.not_before = Draw(hold, now);
  }
  waiter.hold = hold.id;
  waiter.token = hold.token;
  waiter.awaits_wake = false;  // it may wait again if it sleeps through its hold
  if (!std) waiter.view = ViewOf(hold);
  TellIfWanted(effects);
  Decide(waiter, Waiter::State::kGranted, effects);
}

// Returns true if a waiter wants the lock, in this client or in another.
bool LockState::IsWanted() const {
  if (grant_->others || !exclusive() || config_.explicit_owner) return grant_->others;
  for (const Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) {
    if (waiter->wait_limit != WaitLimit::kNone) return true;
  }
  return false;
}

// A recall may come before the result of a request that the server executed first.
void LockState::NoteOthers(Grant& grant, int64_t others) {
  grant.others = others > 0 || (grant.others && grant.recalled);
}

// Tells each hold of the grant once. A hold that replicas must confirm is told after that.
void LockState::TellIfWanted(Effects& effects) {
  if (!held() || !grant_->terms.told || !IsWanted()) return;
  if (grant_->terms.acks.any() && !grant_->acked) return;
  for (LocalHold& hold : grant_->holds) {
    if (std::exchange(hold.wanted, true)) continue;
    if (hold.view != nullptr) hold.view->SetWanted(true);
    effects.notices.push_back({.kind = Notice::Kind::kWanted,
                               .token = hold.token,
                               .options = hold.options,
                               .view = hold.view});
  }
}

void LockState::GiveToHead(base::Instant now, Effects& effects) {
  while (shared() && queue_.has_several()) {
    Waiter& first = *queue_.head();
    queue_.Remove(first);
    GiveTo(first, now, effects);
  }
  Waiter& head = *queue_.head();
  queue_.Remove(head);
  grant_->retakes_left = config_.retakes;
  GiveTo(head, now, effects);
  if (config_.explicit_owner) LetOwnerIn(now, effects);
}

// No thread uses the grant: it passes on inside the client, is cached, or goes back to the server.
void LockState::Settle(uint64_t ended, FencingToken token, absl::Duration cache_for,
                       base::Instant now, Effects& effects) {
  Waiter* const head = queue_.head();
  if (head == nullptr && Cache(cache_for, now)) return;
  if (head == nullptr || !CanPass(*head, now)) {
    return GiveBack(now, ended, token);
  }
  if (grant_->retakes_left <= 0) return GiveToHead(now, effects);
  if (head->awaits_wake) return;
  head->awaits_wake = true;
  Wake(*head, effects);
}

void LockState::OnWoken(Waiter& waiter, base::Instant now, Effects& effects) {
  waiter.awaits_wake = false;
  if (pending_ && pending_->ask_again) AskNow(now);
  Expire(now, effects);
  if (waiter.state != Waiter::State::kWaiting || !grant_) return;
  if (held()) {
    grant_->retakes_left = 0;  // another thread was faster, so this one is next
  } else if (queue_.head() == &waiter && CanPass(waiter, now)) {
    GiveToHead(now, effects);
  } else {
    Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
  }
}

// A latch has opened.
void LockState::LetAllThrough(base::Instant now, Effects& effects) {
  pending_.reset();
  while (Waiter* const waiter = queue_.head()) {
    queue_.Remove(*waiter);
    waiter->state = Waiter::State::kGranted;
    ++tally_.opened;
    if (config_.counts) tally_.waited.Add(waiter->began, now);
    Wake(*waiter, effects);
  }
}

// ---- Holds: how one is entered again, ends, and is found.

std::optional<HoldRef> LockState::Reenter(uint64_t thread, Face face, bool manual,
                                          base::Instant now) {
  if (!config_.reentrant || !held() || next_expiry() <= now) return std::nullopt;
  LocalHold* const mine = config_.explicit_owner ? &grant_->holds.front() : FindOf(thread);
  if (mine == nullptr) return std::nullopt;
  if (grant_->terms.manual && !manual) {  // the hold must not end with the manual lease
    grant_->terms.manual = false;
    RenewNow(now);
  }
  HoldRef held{.hold = mine->id};
  if (face == Face::kStatus) {
    held.not_before = Draw(*mine, now);
    held.view = ViewOf(*mine);
  }
  held.token = mine->token;
  held.depth = ++mine->depth;
  if (face == Face::kStd) ++mine->std_depth;
  return held;
}

bool LockState::UnlockInner(uint64_t thread) {
  LocalHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->depth < 2 || mine->std_depth == 0) return false;
  --mine->depth;
  --mine->std_depth;
  return true;
}

// Returns the options for the caller, since they must be destroyed outside the mutex.
std::shared_ptr<const LockOptions> LockState::EndHold(const LocalHold& hold, base::Instant now) {
  if (config_.counts) tally_.held_for.Add(hold.began, now);
  if (hold.view != nullptr) hold.view->Release();
  std::shared_ptr<const LockOptions> options = hold.options;
  grant_->holds.erase(grant_->holds.begin() + (&hold - grant_->holds.data()));
  return options;
}

Released LockState::ReleaseLevel(LocalHold& hold, Face face, base::Instant now, Effects& effects) {
  Released released{.hold = hold.id, .token = hold.token};
  --hold.depth;
  if (face == Face::kStd) --hold.std_depth;
  if (hold.depth > 0) return released;
  if (hold.unconfirmed) grant_->taken_until = 0;  // no thread has had it
  short_hold_ = now - hold.began <= Scaled(turn_.get(), 1, 2);
  const auto& options = effects.ended.emplace_back(EndHold(hold, now));
  if (held()) return released;
  Settle(released.hold, released.token, options->cache_for, now, effects);
  if (!grant_) released.kind = Released::Kind::kUnconfirmed;
  return released;
}

Released LockState::Release(uint64_t hold, base::Instant now, Effects& effects,
                            FencingToken token) {
  Expire(now, effects);
  if (LocalHold* const current = Find(hold)) {
    // The remaining levels must be ended by unlock().
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
  LocalHold* const lost = FindLost(thread);
  if (lost == nullptr) return {.kind = Released::Kind::kNotHeld};
  Released released{.kind = Released::Kind::kLost, .hold = lost->id, .token = lost->token};
  if (--lost->std_depth == 0) lost_std_->erase(lost_std_->begin() + (lost - lost_std_->data()));
  return released;
}

void LockState::ReleaseStd(base::Instant now, Effects& effects) {
  Expire(now, effects);
  lost_std_.reset();
  may_cache_ = false;
  if (cached()) return GiveBack(now);
  if (!held()) return;
  for (size_t i = grant_->holds.size(); i-- > 0;) {
    LocalHold& hold = grant_->holds[i];
    hold.depth -= std::exchange(hold.std_depth, 0);
    if (hold.depth == 0) effects.ended.push_back(EndHold(hold, now));
  }
  if (!held()) Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
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

LocalHold* LockState::FindLost(uint64_t thread) const {
  if (lost_std_ == nullptr) return nullptr;
  for (LocalHold& each : *lost_std_) {
    if (each.thread == thread) return &each;
  }
  return nullptr;
}

bool LockState::Valid(uint64_t hold, base::Instant now) const {
  return latch() || (Find(hold) != nullptr && now < grant_->deadline);
}

base::Instant LockState::Deadline(uint64_t hold) const {
  return Find(hold) != nullptr ? grant_->deadline : base::Instant();
}

std::shared_ptr<HoldState> LockState::ViewOf(LocalHold& hold) const {
  if (hold.view == nullptr) hold.view = std::make_shared<HoldState>();
  hold.view->Prolong(grant_->deadline);
  hold.view->SetAckedBy(grant_->acked_by);
  if (grant_->terms.told) hold.view->SetWanted(hold.wanted);
  return hold.view;
}

HoldRef LockState::OfThread(uint64_t thread) const {
  if (const LocalHold* const mine = FindOf(thread)) {
    return {mine->id, mine->token, mine->depth, grant_->id, mine->view};
  }
  const LocalHold* const lost = FindLost(thread);
  return lost == nullptr ? HoldRef() : HoldRef{lost->id, lost->token, 0, 0, lost->view};
}

HoldRef LockState::Current(uint64_t thread, base::Instant now) {
  LocalHold* const mine = FindOf(thread);
  base::Instant not_before;
  if (mine != nullptr) {
    not_before = Draw(*mine, now);
    ViewOf(*mine);
  } else if (LocalHold* const lost = FindLost(thread); lost != nullptr && lost->view == nullptr) {
    lost->view = std::make_shared<HoldState>();
    lost->view->Lose();
  }
  HoldRef held = OfThread(thread);
  held.not_before = not_before;
  return held;
}

HoldRef LockState::Pin(uint64_t thread, base::Instant now) {
  if (FindOf(thread) != nullptr) grant_->pinned = true;
  return Current(thread, now);
}

// ---- Cached grants.

// Returns true if no other client has asked for the grant. A lock that came by message from a
// client that may want it back can be cached once the server has confirmed it. A read grant that
// writers recall again and again is cached only if it serves readers in between.
bool LockState::MayCache() const {
  return grant_->terms.cacheable && subscribed_ && !grant_->others && !grant_->recalled &&
         !grant_->tried && !grant_->forced &&
         (shared() ? serves_ || served_ >= kOfUse : !grant_->claimed);
}

// `others`: other clients waited for the lock, or this one waited for them.
void LockState::NoteContention(bool others) {
  constexpr unsigned kRemembered = 15;
  if (others) {
    contended_ = exclusive() ? 1 : kRemembered;
  } else if (contended_ > 0) {
    --contended_;
  }
}

// The server has granted the lock, or renewed a read grant. Readers have no turn while a writer is
// known to wait.
void LockState::BeginTurn(base::Instant now, absl::Duration turn) {
  const bool none = contended_ == 0 || config_.explicit_owner || (shared() && grant_->others);
  grant_->turn_ends = none ? base::Instant() : now + turn;
}

// Returns true if the waiter may take a permit or a read grant that is cached for a turn.
bool LockState::InTurn(const Waiter& waiter, base::Instant now) const {
  return !exclusive() && !grant_->others && now < grant_->turn_ends &&
         waiter.terms == grant_->terms;
}

// Until when the client may cache the grant in its turn, because it expects a thread back that can
// use it several times; Instant() if it may not. The grant must be a brief claim, which the server
// soon frees if this process ends; with `cache_for`, the user accepts a whole lease.
base::Instant LockState::StaysUntil(base::Instant now) const {
  const Grant& grant = *grant_;
  const bool ends_soon =
      grant.brief || grant.terms.cacheable || grant.terms.lease <= kShortestBriefClaim;
  if (!ends_soon || (exclusive() ? !HasTokens() : grant.others)) return base::Instant();
  if (!shared()) {
    return ServesAgainWithin(grant.turn_ends - now) ? grant.turn_ends : base::Instant();
  }
  // A reader that comes soon after the turn asks for the next one; see TakeCached().
  const base::Instant until = grant.turn_ends + Scaled(turn_.get(), 1, kPartsOfATurn);
  return now < until && ServesAgainWithin(turn_.get()) ? until : base::Instant();
}

// No thread waits here. Returns false if the grant goes back to the server.
bool LockState::Cache(absl::Duration cache_for, base::Instant now) {
  left_at_ = now;
  if (!shared()) taken_at_ = now;  // readers do not block readers
  Grant& grant = *grant_;
  const bool cacheable = MayCache();
  const base::Instant stays_until = StaysUntil(now);
  if (!may_cache_ || exits_ || (!cacheable && stays_until == base::Instant()) ||
      grant.deadline <= now || grant.pinned || grant.terms.manual || grant.terms.acks.any() ||
      config_.explicit_owner) {
    return false;
  }
  left_cached_ = true;
  grant.cached_until = cacheable ? now + cache_for : stays_until;
  grant.recallable |= cacheable;
  const bool draws = exclusive() && grant.next_token > grant.first_token;
  if (cacheable && draws && grant.last_token < grant.next_token + kFewTokens && !grant.renewing &&
      grant.failures == 0) {
    RenewNow(now);
  }
  return true;
}

// A thread has come for the lock that the client's threads left at `left_at_`. An absence of more
// than half a turn counts as half a turn, so that two quick returns make up for it. If the lock had
// gone to another client, the system may have run that client first, so one absence is no sign.
void LockState::NoteReturn(base::Instant now) {
  const absl::Duration longest = Scaled(turn_.get(), 1, 2);
  const absl::Duration away = std::min(now - left_at_, longest);
  const absl::Duration before = Scaled(std::min(away_.get(), longest), 1, 2);
  away_ = PackedDuration(std::max(left_cached_ ? away : std::min(away, last_away_.get()), before));
  last_away_ = PackedDuration(away);
  left_at_ = base::Instant();
  left_cached_ = false;
}

// Returns true if a thread is expected back so soon that it can use the lock several times in what
// is left of a turn.
bool LockState::ServesAgainWithin(absl::Duration turn) const {
  return short_hold_ && turn > absl::ZeroDuration() &&
         away_.get() <= Scaled(turn, 1, kPartsOfATurn);
}

// Returns true if the server need not be asked.
bool LockState::TakeCached(Waiter& waiter, base::Instant now, Effects& effects) {
  const bool joins = shared() && MayCache() && waiter.terms == grant_->terms;
  if (joins || CanPass(waiter, now) || InTurn(waiter, now)) {
    GiveTo(waiter, now, effects);
    return true;
  }
  // More tokens are wanted, or a reader's turn is over.
  const bool asks = shared() ? !grant_->others && !grant_->recalled : MayCache() && !HasTokens();
  if (asks && waiter.terms == grant_->terms && grant_->failures == 0) {
    waiter.since = now;
    queue_.Append(waiter);
    if (!grant_->renewing) RenewNow(now);
    return true;
  }
  GiveBack(now);
  return false;
}

void LockState::OnRecall(GrantId grant, base::Instant now, Effects& effects, bool tried) {
  if (tried) tried_s = SecondOf(now);
  if (IsPending(grant)) {  // the recall came before the result of the acquire
    pending_->exposed = true;
    pending_->again |= pending_->in_flight;
  }
  if (!Has(grant)) return;
  if (grant_->terms.told && !tried) {
    grant_->others = true;
    TellIfWanted(effects);
  }
  EndCaching(now);
}

void LockState::OnUnknownNative(GrantId grant, base::Instant now) {
  if (Has(grant) || IsPending(grant) || !cleanups_.empty() || !MakeRoom()) return;
  Cancel({.grant = grant, .terms = {.lease = kShortestClaim}}, /*tombstone=*/false, now);
}

void LockState::EndCaching(base::Instant now) {
  if (!grant_ || grant_->recalled) return;
  grant_->recalled = true;
  if (IsNative(grant_->id)) PauseNatives();
  if (shared()) {
    serves_ = served_ >= kOfUse;
    served_ = 0;
  } else {
    grant_->asked = now;  // a last window for threads of this client
  }
  if (!cached()) return;
  if (grant_->turn_ends <= now) return GiveBack(now);
  grant_->cached_until = grant_->turn_ends;
}

void LockState::OnUnsubscribed(base::Instant now) {
  subscribed_ = false;
  if (!cached()) return;
  if (grant_->turn_ends <= now) return GiveBack(now);
  grant_->cached_until = std::min(grant_->cached_until, grant_->turn_ends);
}

void LockState::OnTooManyCached(base::Instant now) {
  if (cached()) GiveBack(now);
}

std::optional<Request> LockState::NextAtExit(base::Instant resumes, base::Instant now,
                                             Effects& effects) {
  Expire(now, effects);
  exits_ = true;
  blocked_until_ = std::max(blocked_until_, resumes);
  DropPending(now);
  if (grant_ && !held()) GiveBack(now);
  UpdatePending(now);
  auto due = cleanups_.Next(now);
  if (!due) return std::nullopt;
  return std::move(due->request);
}

void LockState::EndTurn(base::Instant now) {
  if (shared() && grant_) grant_->turn_ends = base::Instant();
  if (cached()) GiveBack(now);
}

bool LockState::TakeCachedNow(uint64_t thread, const std::shared_ptr<const LockOptions>& options,
                              base::Instant now) {
  if (!grant_ || !queue_.empty() || grant_->lost_at <= now || config_.tells_token) return false;
  // Readers may join other readers.
  if (!cached() && (!shared() || !held() || FindOf(thread) != nullptr)) return false;
  const Grant& grant = *grant_;
  const Terms& terms = grant.terms;
  if (!MayCache() || (!shared() && !HasTokens()) ||
      terms.lease != absl::Duration(options->lease) + options->grace ||
      terms.margin.get() != Margin(*options) || terms.bounded || IsBounded(*options) ||
      terms.whole || terms.args || terms.told != TellsIfWanted(*options) ||
      options->cache_for <= absl::ZeroDuration() || options->cache_for > terms.lease ||
      options->acks.replicas != 0 || options->acks.fsync) {
    return false;
  }
  BeginHold({.thread = thread,
             .std_depth = 1,
             .token = shared() ? FencingToken(grant.first_token) : FencingToken(),
             .began = now,
             .options = options},
            now);
  return true;
}

bool LockState::LeaveCachedNow(uint64_t thread, base::Instant now,
                               std::shared_ptr<const LockOptions>& ended) {
  if (!held() || !queue_.empty() || grant_->lost_at <= now) return false;
  LocalHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->depth != 1 || mine->std_depth != 1 || mine->view != nullptr ||
      config_.tells_token || !MayCache()) {
    return false;
  }
  const bool last = grant_->holds.size() == 1;
  if (last && !Cache(mine->options->cache_for, now)) return false;
  ended = EndHold(*mine, now);
  return true;
}

// ---- The pending acquire: a request for the lock that is not yet decided.

void LockState::UpdatePending(base::Instant now) {
  if (grant_) return;
  const Waiter* const head = queue_.head();
  if (head == nullptr) server_.Forget();
  if (pending_ && (head == nullptr || pending_->acquire.terms != head->terms)) DropPending(now);
  if (pending_ && pending_->ask_again) AskNow(now);  // the waiter that was to ask may have left
  if (pending_ || head == nullptr) return;
  pending_.emplace();
  const bool recallable = head->terms.cacheable || head->terms.told;
  pending_->acquire.grant = NextGrant() | (recallable ? kCacheable : 0);
  pending_->acquire.terms = head->terms;
  pending_->began = now;
  pending_->due = now;
}

void LockState::DropPending(base::Instant now) {
  if (!pending_) return;
  const bool unanswered = pending_->in_flight || pending_->uncertain;
  if (unanswered || pending_->queued) Cancel(pending_->acquire, unanswered, now);
  pending_.reset();
}

// No waiter needs that acquire any more.
void LockState::Cancel(const AcquireRequest& acquire, bool tombstone, base::Instant now) {
  const absl::Duration lease = acquire.terms.lease;
  if (cleanups_.Has(acquire.grant)) return;
  cleanups_.Add(
      {.request = {.what = CancelRequest{.tombstone = tombstone, .amount = acquire.amount},
                   .grant = acquire.grant,
                   .lease = lease,
                   .permits = acquire.terms.permits},
       .expires = now + LongestAbandoned(lease, config_.longest_heartbeat.get()),
       .due = now});
}

AcquireRequest LockState::NextAcquire(base::Instant now, bool contended) {
  PendingAcquire& pending = *pending_;
  const Waiter& head = *queue_.head();
  if (pending.acquire.attempt == 0) {
    const bool serves_again = contended_ && ServesAgainWithin(head.turn.get());
    const bool may_serve = !head.terms.manual && !config_.explicit_owner &&
                           head.terms.at_least.get() == absl::ZeroDuration();
    const bool passes_on =
        ((contended && FreeTurn(*head.options) > absl::ZeroDuration()) || serves_again) &&
        may_serve && exclusive();
    pending.acquire.amount = passes_on ? kBlock : head.terms.permits;
    // Within its turn the client caches a lock as a claim, in case its process ends.
    const bool claims = may_serve && serves_again && !head.terms.whole && !head.terms.cacheable &&
                        !head.terms.acks.any();
    pending.acquire.claim_ms = claims ? BriefClaimMs(usual_wait_.get()) : 0;
  }
  pending.acquire.wait = false;
  for (const Waiter* waiter = &head; waiter != nullptr; waiter = waiter->next) {
    if (waiter->wait_limit == WaitLimit::kNone) continue;
    pending.acquire.wait = true;
    break;
  }
  const uint32_t second = SecondOf(now);
  pending.acquire.recalls = !pending.acquire.wait && recalled_s_ != second;
  if (pending.acquire.recalls) recalled_s_ = second;
  ++pending.acquire.attempt;
  // A claim needs no message any more.
  pending.acquire.listen = pending.acquire.attempt > 1 && !pending.claimed;
  if (pending.acquire.attempt == 1) pending.first_sent = now;
  pending.again = pending.ask_again = false;
  pending.votes_due = base::Instant::Infinite();
  // This must not need memory. A grant that names an older attempt is confirmed first.
  if (pending.attempts.size() == pending.attempts.capacity()) {
    pending.attempts.erase(pending.attempts.begin());
  }
  pending.attempts.push_back({.number = pending.acquire.attempt, .sent = now});
  pending.in_flight = true;
  AcquireRequest acquire = pending.acquire;
  // A client that misses message after message queues last, so its claims delay no other client.
  if (misses_) acquire.ticket = 0;
  // A claim must become the whole lease, even that of a manual hold.
  if (pending.claimed) acquire.terms.manual = false;
  // Lets the server detect that it lacks some of a latch's counts.
  acquire.counted = latch_counts_;
  return acquire;
}

// ---- The native acquire: one command in place of a script. It knows of no queue, no token and no
// tombstone, so it is for lock() while no other client is known to want the lock. A margin would
// make its claim longer, and so the time for which one that comes too late keeps the lock taken.

bool LockState::MayBeNative() const {
  const Waiter& head = *queue_.head();
  const Terms& terms = head.terms;
  return head.native && head.face == Face::kStd && !queue_.has_several() && scripts_left_ == 0 &&
         pending_->acquire.attempt == 0 && !wants_tokens_ && !config_.explicit_owner &&
         !terms.manual && !terms.whole && !terms.cacheable && !terms.told && !terms.acks.any() &&
         terms.margin.get() == absl::ZeroDuration() && handover_check_.none();
}

AcquireRequest LockState::NextNativeAcquire(base::Instant now) {
  PendingAcquire& pending = *pending_;
  pending.acquire.grant |= kNative;
  pending.acquire.amount = 0;
  pending.again = pending.ask_again = false;
  pending.attempts.push_back({.number = 0, .sent = now});
  pending.in_flight = true;
  return pending.acquire;
}

// If it was not granted, a script asks under another id: the native one is never used twice.
void LockState::OnNativeResult(const Request& request, const Result& result, base::Instant now,
                               Effects& effects) {
  PendingAcquire& pending = *pending_;
  const AcquireRequest native = pending.acquire;
  const auto* const granted = std::get_if<AcquireGranted>(&result.acquire());
  const Failed* const failed = result.failed();
  if (granted != nullptr) {
    if (now + Scaled(granted->lease, 1, 4) <= LocalDeadline(request.sent, granted->lease)) {
      // Its amount is 0, so there is no token 1 either.
      return OnGranted({.grant = request.grant, .token = 1, .lease = granted->lease}, request.sent,
                       granted->lease < native.terms.lease, now, effects);
    }
  }
  if (granted != nullptr || (failed != nullptr && failed->may_have_executed)) {
    Cancel(native, /*tombstone=*/true, now);
  } else if (failed == nullptr) {
    taken_at_ = now;
    PauseNatives();
  }
  pending.acquire.grant = NextGrant();
  pending.attempts.clear();
  scripts_left_ = std::max(scripts_left_, uint16_t{1});
  if (failed != nullptr && absl::IsUnavailable(failed->why)) {
    return OnAcquireFailed(request, *failed, now, effects);
  }
  pending.due = now;
  UpdatePending(now);
}

void LockState::NoteGranted(const NewGrant& news, bool others) {
  NoteContention(others);
  if (!IsNative(news.grant)) last_token_ = news.token;
  if (others) return PauseNatives();
  if (scripts_left_ > 0) --scripts_left_;
}

void LockState::PauseNatives() {
  native_pause_ = static_cast<uint16_t>(
      std::min<int>(std::max<int>(2 * native_pause_, kShortestPause), longest_native_pause));
  scripts_left_ = native_pause_;
}

void LockState::Enqueue(Waiter& waiter, base::Instant now) {
  waiter.since = now;
  queue_.Append(waiter);
  UpdatePending(now);
  // A waiter that does not wait is answered before a retry is due.
  if (waiter.wait_limit == WaitLimit::kNone) pending_->due = std::min(pending_->due, now);
}

void LockState::AskNow(base::Instant now) {
  pending_->due = now;
  pending_->again = pending_->in_flight;
}

// The head's thread is woken to ask, since it is the fastest.
void LockState::OnAskAgain(GrantId grant, Effects& effects) {
  if (!IsPending(grant)) return;
  Waiter& head = *queue_.head();
  misses_ = false;  // messages do arrive
  pending_->ask_again = pending_->exposed = true;
  pending_->listens = false;  // the channel may have been lost
  pending_->again |= pending_->in_flight;
  head.awaits_wake = true;
  Wake(head, effects);
}

void LockState::OnVote(GrantId grant, base::Instant now) {
  if (!IsPending(grant) || !pending_->votes_due.is_infinite()) return;
  pending_->votes_due = now + kVotesCome;
  pending_->due = std::min(pending_->due, pending_->votes_due);
}

Request LockState::WithAcquire(PendingCleanups::Due due, base::Instant now) {
  auto* const release = std::get_if<ReleaseRequest>(&due.request.what);
  if (release != nullptr && release->taken_until == 0 && due.first && pending_ &&
      pending_->acquire.attempt == 0 && !pending_->in_flight && asks_at() <= now && exclusive() &&
      !config_.several) {
    release->native = false;
    release->next = NextAcquire(now, true);  // the thread that released is likely to come again
  }
  return std::move(due.request);
}

uint64_t LockState::waiting() const {
  uint64_t waiters = 0;
  for (const Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) ++waiters;
  return waiters;
}

// ---- Results of acquire requests, and grants by message.

void LockState::OnAcquireResult(const Request& request, const Result& result, base::Instant now,
                                Effects& effects) {
  const AcquireRequest& acquire = *request.acquire();
  const AcquireResult& outcome = result.acquire();
  const auto* const granted = std::get_if<AcquireGranted>(&outcome);
  const auto* const queued = std::get_if<AcquireQueued>(&outcome);
  if (!IsPending(acquire.grant)) {
    if (OnLateResult(request, result, now, effects)) return;
    if (granted != nullptr || queued != nullptr) Cancel(acquire, /*tombstone=*/false, now);
    return;
  }
  pending_->in_flight = false;
  if (IsNative(acquire.grant)) return OnNativeResult(request, result, now, effects);
  if (result.failed() != nullptr) return OnAcquireFailed(request, *result.failed(), now, effects);
  auto& attempts = pending_->attempts;
  while (attempts.front().number < acquire.attempt) attempts.erase(attempts.begin());
  if (granted != nullptr) {
    // The rest of a claim is not the lease that was asked for.
    const Terms& terms = acquire.terms;
    const bool stays_taken = terms.at_least.get() > absl::ZeroDuration();
    const absl::Duration enough =
        stays_taken ? terms.first_lease() - absl::Milliseconds(1) : terms.lease / 10 * 9;
    if ((terms.manual || stays_taken) && pending_->queued && granted->lease < enough) {
      return ConfirmFirst(now, effects);
    }
    const bool is_claim = (acquire.is_brief() || granted->claimed) && granted->lease < terms.lease;
    return OnGranted({.grant = acquire.grant,
                      .attempt = acquire.attempt,
                      .token = granted->token,
                      .lease = granted->lease,
                      .others = granted->others},
                     request.sent, is_claim, now, effects);
  }
  if (queued != nullptr) return OnQueued(*queued, now, effects);
  if (std::holds_alternative<AcquireBusy>(outcome)) return OnBusy(now, effects);
  if (std::holds_alternative<AcquireNotMade>(outcome)) {
    pending_->due = now;
    return;
  }
  pending_.reset();
  UpdatePending(now);
}

void LockState::OnBusy(base::Instant now, Effects& effects) {
  taken_at_ = now;
  // A grant of this client whose release was overtaken may block the lock: ask after that release.
  if (cleanups_.Hurry(now)) {
    pending_->due = now + Spread(kAfterOwnRelease, kLongAfterOwnRelease, pending_->failures++,
                                 pending_->acquire.grant);
    return;
  }
  RefuseImpatient(effects);
  pending_->due = now;
  UpdatePending(now);
}

void LockState::OnQueued(const AcquireQueued& result, base::Instant now, Effects& effects) {
  PendingAcquire& pending = *pending_;
  cleanups_.Hurry(now);
  taken_at_ = now;
  pending.queued = true;
  pending.claimed = false;
  pending.failures = 0;
  pending.acquire.ticket = result.ticket;
  if (result.counted.counts > latch_counts_.counts) latch_counts_ = result.counted;
  pending.heartbeat =
      now + HeartbeatInterval(pending.acquire.terms.lease, config_.longest_heartbeat.get());
  pending.due = pending.heartbeat;
  // A lock without a queue of its own, such as Redisson's, tells no position that counts.
  const bool near_head = 0 <= result.position && result.position < kNearHead && !config_.listens;
  const absl::Duration stagger =
      near_head ? result.position * kAsksAfterNext : absl::ZeroDuration();
  const bool first = pending.acquire.attempt == 1;
  if (first) pending.began = now;
  // The grant may pass to clients with brief claims, and they may die. So a waiter near the head
  // asks again: soon after a claim, otherwise during an unusually long wait.
  const bool in_claim = near_head && result.retry_after > absl::ZeroDuration() &&
                        result.retry_after <= kShortestClaim;
  const absl::Duration usual = usual_wait_.get();
  if (in_claim || (usual > absl::ZeroDuration() && (first || near_head))) {
    const absl::Duration wait = in_claim    ? kShortestBriefClaim
                                : near_head ? LongWaitNearHead(usual, now - pending.began)
                                            : LongWait(usual);
    pending.due = std::min(pending.due, now + wait + stagger);
  }
  if (result.position <= 0 && result.retry_after < absl::ZeroDuration()) {
    PollSoon(pending.acquire.grant, now);
  } else if (result.position <= 0 || (near_head && result.retry_after > absl::ZeroDuration())) {
    // If the waiters before it are well, one of them has the lock by then.
    pending.due = std::min(pending.due, now + result.retry_after + absl::Milliseconds(1) + stagger);
  }
  pending.due = std::min(pending.due, pending.votes_due);
  if (pending.again) pending.due = now;
  RefuseImpatient(effects);
  UpdatePending(now);
  // Its thread listens, if another one has sent the request. Later heartbeats do not wake it.
  if (config_.listens && pending_ && !pending_->listens) Wake(*queue_.head(), effects);
}

bool LockState::MustListen(const Waiter& waiter, bool listens) {
  if (!config_.listens || !pending_) return false;
  pending_->listens = listens;
  return !listens && pending_->queued && queue_.head() == &waiter;
}

void LockState::OnListening(base::Instant now) {
  if (config_.listens && pending_) AskNow(now);
}

void LockState::OnAcquireFailed(const Request& request, const Failed& failed, base::Instant now,
                                Effects& effects) {
  PendingAcquire& pending = *pending_;
  pending.uncertain |= failed.may_have_executed && !IsNative(request.grant);
  if (!MayPass(failed.why, pending.queued)) {
    FailIf(std::nullopt, base::Instant::Infinite(), failed.why, effects);
    return UpdatePending(now);
  }
  if (absl::IsUnavailable(failed.why)) {
    OnUnreachable(request.sent, failed.why, now, effects);
  } else {
    FailIf(WaitLimit::kNone, base::Instant::Infinite(), failed.why, effects);
    server_.Answered(now);
  }
  pending.due =
      now + Spread(kFirstBackoff, kLongestBackoff, pending.failures++, pending.acquire.grant);
  if (pending.again) pending.due = now;
  UpdatePending(now);
}

// No message will tell this waiter that it is its turn.
void LockState::PollSoon(GrantId grant, base::Instant now) {
  if (!IsPending(grant)) return;
  const absl::Duration poll =
      std::max(kFirstPoll, Spread(kFirstPoll * 2, kLongestPoll, pending_->polls++, grant));
  pending_->due = std::min(pending_->due, now + poll);
}

void LockState::OnGrant(const NewGrant& news, base::Instant now, Effects& effects, bool proven) {
  if (!IsPending(news.grant)) return;
  misses_ = false;
  server_.Answered(now);
  pending_->queued = true;  // messages are sent only for queued requests
  const bool exposed = std::exchange(pending_->exposed, true);
  const auto& attempts = pending_->attempts;
  const auto attempt = std::ranges::find(attempts, news.attempt, &PendingAcquire::Attempt::number);
  // Other clients may know the id, or the attempt is too old to be remembered and its deadline has
  // passed.
  if ((exposed && !proven) || attempt == attempts.end()) return ConfirmFirst(now, effects);
  if (latch()) return LetAllThrough(now, effects);
  const base::Instant asked = attempt->sent;
  const Terms& terms = pending_->acquire.terms;
  const absl::Duration claim = std::min(news.lease, terms.lease);
  const base::Instant deadline = LocalDeadline(asked, claim, terms.margin.get());
  const bool late = deadline < now + Scaled(claim - terms.margin.get(), 1, 4);
  const bool odd = exclusive() && news.token < std::max(last_token_, uint64_t{1});
  if (late || odd || terms.manual || terms.whole || terms.acks.any()) {
    return ConfirmFirst(now, effects);
  }
  NewGrant claimed = news;
  claimed.lease = claim;
  OnGranted(claimed, asked, /*is_claim=*/true, now, effects);
}

// The claim is too short to work under: the server is asked for the lease before a thread gets the
// lock. The reply has the token of the present grant, which may be another one. The head's thread
// asks, if it is awake.
void LockState::ConfirmFirst(base::Instant now, Effects& effects) {
  pending_->claimed = true;
  AskNow(now);
  Wake(*queue_.head(), effects);
}

void LockState::OnGranted(const NewGrant& news, base::Instant asked, bool is_claim,
                          base::Instant now, Effects& effects) {
  if (latch()) return LetAllThrough(now, effects);
  PendingAcquire& pending = *pending_;
  const Terms terms = pending.acquire.terms;
  const base::Instant deadline = LocalDeadline(asked, news.lease, terms.margin.get());
  if (deadline <= now) {  // too late to use; asking again renews the lease
    pending.queued = true;
    pending.due = now + Spread(kFirstBackoff / 10, kLongestBackoff, pending.failures++,
                               pending.acquire.grant);
    return;
  }
  const uint64_t last_token = news.token + pending.acquire.amount - 1;
  grant_.emplace(Grant{
      .id = news.grant,
      .terms = terms,
      .attempt = news.attempt,
      .claimed = is_claim,
      .brief = is_claim && pending.acquire.is_brief(),
      .others = news.others > 0,
      .queued = pending.queued,
      .tried = SecondOf(now) - tried_s <= kNotCachedSeconds,
      .recallable = terms.told || (terms.cacheable && news.others == 0),
      .extends = terms.manual,
      .native = IsNative(news.grant) && !pending.again,
      .pinned = terms.at_least.get() > absl::ZeroDuration(),
      // The attempt that the grant names was executed, whenever its own result comes.
      .in_flight = pending.in_flight && news.attempt < pending.acquire.attempt,
      .uncertain = pending.uncertain,
      .claim = is_claim ? news.lease : absl::ZeroDuration(),
      .deadline = deadline,
      .lost_at = deadline - ExpiryLead(terms.lease),
      .server_expires = now + news.lease,
      .asked = asked,
      // Tokens that are not handed out one by one are not given back either.
      .next_token = exclusive() ? news.token : last_token + 1,
      .last_token = last_token,
      .first_token = news.token,
      // They have been reserved by now, by an unknown command. Counting from the time when one was
      // sent would let the tokens run ahead of the server's clock.
      .reserved = now,
      .renew_due = pending.again ? now
                   : is_claim    ? ConfirmDue(news.lease, deadline, now)
                                 : RenewDue(terms, asked),
  });
  const bool others = pending.queued || news.others > 0;
  NoteGranted(news, others);
  BeginTurn(now, queue_.head()->turn.get());
  if (pending.queued) {
    usual_wait_ = PackedDuration(std::max(Scaled(usual_wait_.get(), 7, 8), now - pending.began));
  }
  if (grant_->pinned) grant_->taken_until = news.token + Micros(terms.at_least.get());
  pending_.reset();
  if (exclusive() && !config_.explicit_owner) handover_check_.Clear();
  ++tally_.granted;
  GiveToHead(now, effects);
  if (!queue_.empty()) return RefuseImpatient(effects);
  // A client may have very many locks and release none of them for long.
  if (!released_once_) cleanups_.DropRoom();
}

// The result of an acquire that a message has granted meanwhile.
bool LockState::OnLateResult(const Request& request, const Result& result, base::Instant now,
                             Effects& effects) {
  if (latch()) return std::holds_alternative<AcquireGranted>(result.acquire());
  if (!Has(request.acquire()->grant)) return false;
  Grant& grant = *grant_;
  grant.in_flight = false;
  if (const Failed* const failed = result.failed()) {
    grant.uncertain |= failed->may_have_executed;
  } else if (const auto* const granted = std::get_if<AcquireGranted>(&result.acquire())) {
    if (!grant.terms.acks.any()) Prolong(request.sent, granted->lease, now);
    grant.asked = request.sent;
    NoteOthers(grant, granted->others);
    TellIfWanted(effects);
    if (grant.claimed && granted->lease >= grant.terms.lease) {
      grant.claimed = false;
      grant.renew_due = RenewDue(grant.terms, request.sent);
    }
  } else if (std::holds_alternative<AcquireQueued>(result.acquire()) &&
             request.acquire()->attempt > grant.attempt) {
    // AcquireQueued after a grant that names an earlier attempt: the grant was over by then. The
    // release takes the client from the queue, or ends a grant whose tokens are unknown here.
    grant.uncertain = true;
    Lose({.what = "the server no longer had it: its lease had expired there, or its release was "
                  "forced"},
         now, now, effects);
  }
  return true;
}

// ---- The grant: cached, given back, or lost.

// Releases the grant. `hold` is the one that has just ended, if its caller may ask for the outcome.
void LockState::GiveBack(base::Instant now, uint64_t hold, FencingToken token) {
  if (hold == 0) token = FencingToken(grant_->next_token - 1);
  AddCleanup({.hold = hold,
              .due = now,
              .releases = true,
              .outcome = {.kind = Released::Kind::kUnconfirmed, .hold = hold, .token = token}},
             now);
  UpdatePending(now);
}

// `cleanup` says why; everything else comes from the grant.
void LockState::AddCleanup(PendingCleanups::PendingCleanup cleanup, base::Instant now) {
  released_once_ = true;
  const Grant& grant = *grant_;
  const absl::Duration lease = grant.terms.lease;
  const bool tombstone = grant.in_flight || grant.uncertain;
  // See lua/common/give_back_cached.lua.
  const bool unheard =
      grant.terms.cacheable && exclusive() && (grant.renewing || grant.failures > 0);
  uint64_t last_used = grant.next_token - 1;
  // Giving back one unused token is not worth more than a plain release.
  if (grant.last_token == grant.first_token && !unheard) last_used = grant.last_token;
  cleanup.request = {
      .what = ReleaseRequest{.tombstone = tombstone,
                             .native = grant.native && !grant.recalled && !grant.forced,
                             .last_used = last_used,
                             .last_reserved = unheard ? 0 : grant.last_token,
                             .taken_until = grant.taken_until,
                             .taken_for = grant.terms.at_least.get()},
      .grant = grant.id,
      .lease = lease,
      .permits = grant.terms.permits};
  cleanup.deadline = grant.deadline;
  // A request in flight may still be executed: a renewal, or an acquire that restores the grant.
  cleanup.expires = grant.server_expires;
  if (grant.renewing || grant.terms.acks.any()) {
    cleanup.expires = std::max(cleanup.expires, now + lease);
  }
  if (tombstone) {
    cleanup.expires =
        std::max(cleanup.expires, now + LongestAbandoned(lease, config_.longest_heartbeat.get()));
  }
  cleanups_.Add(std::move(cleanup));
  grant_.reset();
  if (!shared()) taken_at_ = now;  // readers do not block readers
}

// The grant is released in any case: if the server says that it is gone, an acquire in flight may
// have restored it since.
void LockState::Lose(LossReason reason, base::Instant release_at, base::Instant now,
                     Effects& effects) {
  auto holds = std::move(grant_->holds);
  AddCleanup({.due = release_at}, now);
  for (const LocalHold& hold : holds) {
    ++tally_.lost;
    if (config_.counts) tally_.held_for.Add(hold.began, now);
    if (hold.view != nullptr) hold.view->Lose();
    if (hold.std_depth == 0) continue;
    if (lost_std_ == nullptr) lost_std_ = std::make_unique<std::vector<LocalHold>>();
    lost_std_->push_back(hold);  // current() shows it until unlock()
    lost_std_->back().options.reset();
  }
  holds.erase(std::remove_if(holds.begin(), holds.end(), std::mem_fn(&LocalHold::unconfirmed)),
              holds.end());
  effects.lost = std::move(holds);
  effects.lost_because = std::move(reason);
  UpdatePending(now);
}

void LockState::LoseExpired(base::Instant now, Effects& effects) {
  LossReason reason{.what = grant_->claimed ? "its handover was not confirmed in time"
                                            : "its lease expired"};
  if (LastsToItsEnd()) {
    reason.what = "it was held for the longest time that LockOptions::at_most allows";
  } else if (!grant_->last_failure.ok()) {
    reason.more = ", because it could not be renewed: ";
    reason.why = std::move(grant_->last_failure);
  } else if (!grant_->terms.manual) {
    reason.more = ": this process was not running in time, or the server was silent";
  }
  if (held()) blocked_until_ = grant_->deadline + grant_->terms.margin.get();
  Lose(std::move(reason), std::max(now, blocked_until_), now, effects);
  taken_at_ = std::max(taken_at_, blocked_until());
}

std::optional<Request> LockState::Extend(uint64_t hold, absl::Duration lease, base::Instant now) {
  if (!Valid(hold, now) || !grant_->extends) return std::nullopt;
  return Renewal(lease + Find(hold)->options->grace, now);
}

std::optional<Request> LockState::StayTaken(uint64_t hold, absl::Duration at_least,
                                            base::Instant now) {
  if (!Valid(hold, now)) return std::nullopt;
  Request request = Renewal(grant_->terms.lease, now);
  request.lease = std::max(request.lease, at_least);
  return request;
}

void LockState::OnStaysTaken(uint64_t hold, absl::Duration at_least) {
  const LocalHold* const mine = Find(hold);
  if (mine == nullptr) return;
  grant_->pinned = true;
  grant_->terms.at_least = PackedDuration(std::max(grant_->terms.at_least.get(), at_least));
  grant_->taken_until = mine->token.value() + Micros(grant_->terms.at_least.get());
}

// Returns when the present hold must end.
base::Instant LockState::HoldEnds() const {
  if (!held() || !grant_->terms.bounded) return base::Instant::Infinite();
  return grant_->holds.front().began + grant_->holds.front().options->at_most;
}

// Returns true if the grant has been renewed for as long as the present hold may last.
bool LockState::LastsToItsEnd() const {
  return grant_->pinned && HoldEnds() <= grant_->deadline + absl::Milliseconds(1);
}

absl::Duration LockState::LongestExtension(uint64_t hold, base::Instant now) const {
  return Find(hold) == nullptr || HoldEnds().is_infinite() ? absl::InfiniteDuration()
                                                           : HoldEnds() - now;
}

Request LockState::Renewal(absl::Duration lease, base::Instant now) {
  if (const base::Instant ends = HoldEnds(); !ends.is_infinite()) {
    const absl::Duration longest = lease;
    lease = LeaseUntil(ends, now, grant_->terms.margin.get(), longest);
    if (lease < longest) grant_->pinned = true;  // no other hold fits into the rest
  }
  RenewRequest what{.acks = grant_->terms.acks,
                    .deadline = grant_->deadline,
                    .last_token = grant_->terms.cacheable ? grant_->last_token : 0,
                    .draws_token = IsNative(grant_->id) && grant_->last_token == 0};
  if (what.acks.any()) what.ack_timeout = grant_->holds.front().options->acks.timeout;
  return Request{.what = what,
                 .grant = grant_->id,
                 .lease = lease,
                 .permits = grant_->terms.permits,
                 .sent = now};
}

std::optional<Request> LockState::Confirm(uint64_t hold, base::Instant by, base::Instant now) {
  if (!Valid(hold, now) || grant_->acked) return std::nullopt;
  for (LocalHold& each : grant_->holds) each.unconfirmed = each.unconfirmed || each.id == hold;
  Request request = Renewal(grant_->terms.lease, now);
  absl::Duration& ack_timeout = std::get<RenewRequest>(request.what).ack_timeout;
  ack_timeout = std::min(ack_timeout, std::max(by - now, absl::Milliseconds(1)));
  return request;
}

std::optional<Request> LockState::DrawFor(uint64_t thread, base::Instant now) {
  const LocalHold* const mine = FindOf(thread);
  if (mine == nullptr || !IsNative(grant_->id)) return std::nullopt;
  wants_tokens_ = true;
  if (mine->token != FencingToken() || HasTokens() || grant_->deadline <= now) return std::nullopt;
  grant_->native = false;
  return Renewal(grant_->terms.lease, now);
}

void LockState::EndWithHold() {
  grant_->deadline = std::min(grant_->deadline, HoldEnds());
  grant_->lost_at = grant_->deadline - ExpiryLead(grant_->terms.lease);
}

void LockState::Prolong(base::Instant sent, absl::Duration lease, base::Instant now) {
  grant_->deadline =
      std::max(grant_->deadline, LocalDeadline(sent, lease, grant_->terms.margin.get()));
  EndWithHold();
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
  if (result.others > 0 && grant.terms.told) grant.others = true;
  TellIfWanted(effects);
  if (extension) return;
  if (IsNative(grant.id) && grant.last_token == 0 && result.last_token > 0) {
    grant.first_token = grant.next_token = result.last_token;
    grant.reserved = now;
    last_token_ = std::max(last_token_, result.last_token);
  }
  grant.last_token = std::max(grant.last_token, result.last_token);
  const FencingToken token = held() ? grant.holds.front().token : FencingToken();
  if (TellsOfRenewals()) {
    ++tally_.renewed;
    // Only an observer is told. Without one, this must not need memory.
    if (config_.tells_token) {
      effects.notices.push_back({.kind = Notice::Kind::kRenewed, .token = token});
    }
  }
  if (grant.at_risk) {
    effects.notices.push_back({.kind = Notice::Kind::kRecovered, .token = token});
  }
  grant.at_risk = false;
  grant.claimed = grant.claimed && request.lease < grant.terms.lease &&
                  request.lease <= std::max(grant.claim, kShortestClaim);
  grant.renew_due = !grant.claimed ? RenewDue(grant.terms, request.sent)
                    : request.lease > grant.claim
                        ? request.sent + ConfirmAfter(request.lease)
                        : request.sent + Scaled(grant.claim - grant.terms.margin.get(), 1, 3);
  if (grant.claimed) grant.claim = std::max(grant.claim, request.lease);
  if (LastsToItsEnd()) grant.renew_due = base::Instant::Infinite();
  if (grant.again) grant.renew_due = now;
  grant.failures = 0;
  if (IsCacheable(grant.id) && result.others > 0) EndCaching(now);
  if (!grant_) return;
  if (shared()) {
    grant.asked = request.sent;
    NoteOthers(grant, result.others);
    NoteContention(grant.others);
    BeginTurn(now, turn_.get());
  }
  if (cached() && !queue_.empty()) {  // it may have new tokens, or no writer may wait
    const bool open = shared() ? !grant.others : CanPass(*queue_.head(), now);
    return open ? GiveToHead(now, effects) : GiveBack(now);
  }
  if (config_.explicit_owner) LetOwnerIn(now, effects);
  if (shared()) LetJoin(now, effects);
}

void LockState::OnRenewal(const Request& request, const Result& result, base::Instant now,
                          Effects& effects) {
  const auto* const held = std::get_if<StillHeld>(&result.what);
  const Failed* const failed = result.failed();
  const bool may_have_executed = failed != nullptr && failed->may_have_executed;
  if (!Has(request.grant)) {
    // It was released meanwhile, and the server renewed the lease then or later.
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
    return Lose({.what = grant.forced ? kForcedReason : kGoneReason}, now, now, effects);
  }
  if (absl::IsFailedPrecondition(failed->why) && !failed->not_sent) {
    return Lose({.why = failed->why}, now, now, effects);
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
  if (cached() && !queue_.empty()) return GiveBack(now);
  if (shared()) LetJoin(now, effects);
  if (!TellsOfRenewals()) return;
  ++tally_.renewals_failed;
  if (grant.at_risk) return;
  grant.at_risk = true;
  effects.notices.push_back({.kind = Notice::Kind::kAtRisk,
                             .token = grant.holds.front().token,
                             .remaining = grant.deadline - now,
                             .why = base::Unshared(failed->why)});
}

void LockState::RenewNow(base::Instant now) {
  grant_->renew_due = now;
  grant_->again = grant_->renewing;
}

// ---- Requests: which is due, and what becomes of their results.

std::optional<Request> LockState::NextRenewal(base::Instant now, absl::Duration early) {
  // A confirmation is not sent early: the grant may end before it is due.
  const absl::Duration sooner =
      grant_->claimed ? absl::ZeroDuration() : std::min(early, Scaled(grant_->terms.lease, 1, 32));
  if (grant_->renewing || grant_->deadline <= now || now + sooner < grant_->renew_due)
    return std::nullopt;
  if (!held() && !cached()) {  // no waiter has come: other clients must not wait
    GiveBack(now);
    return NextRequest(now, early);
  }
  grant_->renewing = true;
  grant_->again = grant_->native = false;
  if (grant_->terms.manual) {
    return Request{.what = RenewRequest(),
                   .grant = grant_->id,
                   .lease = kCheckOnly,
                   .permits = grant_->terms.permits,
                   .sent = now};
  }
  // In the client's turn, a lock that threads use only for moments stays a claim: see StaysUntil().
  // Readers ask when their turn is over. A hold that is not over soon, or outlasts the turn, first
  // gets a longer claim: its thread may only be waiting for a processor.
  const bool in_turn = shared() ? contended_ > 0 : now < grant_->turn_ends;
  const absl::Duration age = cached() ? absl::ZeroDuration() : now - grant_->holds.front().began;
  const bool stays =
      grant_->claimed && (in_turn || grant_->brief) && age < ConfirmAfter(kShortestClaim);
  const bool as_brief = stays && in_turn && age < ConfirmAfter(grant_->claim);
  grant_->brief &= as_brief;  // from now on the server may have it for longer
  const absl::Duration longer = std::max(grant_->claim, kShortestClaim);
  return Renewal(as_brief ? grant_->claim
                 : stays  ? std::min(longer, grant_->terms.lease)
                          : grant_->terms.lease,
                 now);
}

std::optional<Request> LockState::NextRequest(base::Instant now, absl::Duration early) {
  if (auto due = cleanups_.Next(now)) return WithAcquire(*std::move(due), now);
  // A waiter near the head does not ask before the lock may be free.
  const bool heartbeat = pending_ && pending_->due == pending_->heartbeat;
  const base::Instant asks_by =
      heartbeat ? now + std::min(early, Scaled(pending_->acquire.terms.lease, 1, 32)) : now;
  if (pending_ && !pending_->in_flight && asks_at() <= asks_by) {
    std::optional<Request> request(std::in_place);
    const bool native = MayBeNative();
    AcquireRequest& acquire = request->what.emplace<AcquireRequest>() =
        native ? NextNativeAcquire(now) : NextAcquire(now, queue_.has_several());
    request->grant = acquire.grant;
    request->lease = acquire.terms.lease;
    request->sent = now;
    if (native) return request;
    // It does what the check would do, and its result says when to ask again.
    if (pending_->queued && handover_check_.due() <= now) handover_check_.Done();
    return request;
  }
  if (std::optional<Request> check = handover_check_.Next(now, *config_.numbers)) return check;
  if (cached() && grant_->cached_until <= now) {
    GiveBack(now);
    return NextRequest(now, early);
  }
  return grant_ ? NextRenewal(now, early) : std::nullopt;
}

bool LockState::IsWanted(const Request& request) const {
  if (std::holds_alternative<RenewRequest>(request.what)) return Has(request.grant);
  // A release or a cancel must reach the server. The acquire behind a release may be given up: a
  // tombstone takes care of that.
  return !std::holds_alternative<AcquireRequest>(request.what) || IsPending(request.grant);
}

void LockState::OnResult(const Request& request, const Result& result, base::Instant now,
                         Effects& effects) {
  Expire(now, effects);
  if (result.failed() == nullptr) server_.Answered(now);
  if (std::holds_alternative<RenewRequest>(request.what)) {
    OnRenewal(request, result, now, effects);
    if (result.unsubscribed) OnUnsubscribed(now);
    return;
  }
  if (handover_check_.Made(request)) {
    handover_check_.OnResult(result, now);
  } else if (!std::holds_alternative<AcquireRequest>(request.what)) {
    const auto* const release = std::get_if<ReleaseRequest>(&request.what);
    if (release != nullptr && release->native) {
      if (std::holds_alternative<NotHeld>(result.what)) PauseNatives();
      if (std::holds_alternative<Freed>(result.what) && native_pause_ > 0) --native_pause_;
    }
    cleanups_.OnResult(request, result, now, effects);
  }
  if (const AcquireRequest* const acquire = request.acquire()) {
    if (result.unsubscribed) {
      misses_ = false;  // no message can come: its place in the queue is not to blame
    } else if (result.missed && IsPending(acquire->grant) && pending_->queued &&
               !pending_->claimed) {
      // The acquire was granted or left the queue, but no message said so.
      misses_ = pending_->exposed = true;
    }
    OnAcquireResult(request, result, now, effects);
    if (result.unsubscribed) PollSoon(acquire->grant, now);
  }
  CheckHandoverAfter(result.check_after, result.unfinished, now);
}

void LockState::CheckHandoverAfter(absl::Duration check_after, bool unfinished, base::Instant now) {
  if (!unfinished && check_after <= absl::ZeroDuration()) return;
  // The present grant proves that the lock was taken. An Owner's does not, because it may have
  // other holds.
  if (grant_ && exclusive() && !config_.explicit_owner) return;
  base::Instant then = base::Instant::Infinite();
  if (check_after > absl::ZeroDuration()) then = now + check_after + kCheckGrace;
  const bool queued = pending_ && pending_->queued;
  if (unfinished && !queued) return handover_check_.AddAtOnce(now, then);
  // A waiter's heartbeat continues the script, or serves as the check. If it is never sent, the
  // check is.
  if (queued) pending_->due = std::min(pending_->due, unfinished ? now : then);
  if (queued && unfinished) pending_->again |= pending_->in_flight;
  if (!then.is_infinite()) handover_check_.Add(then);
}

// The server's result tells whether the grant or the request is really gone.
void LockState::OnForced(GrantId grant, base::Instant now) {
  if (Has(grant)) {
    grant_->forced = true;
    RenewNow(now);
  }
  if (!IsPending(grant)) return;
  pending_->exposed = true;
  AskNow(now);
}

void LockState::OnReconnected(base::Instant now) {
  if (grant_) RenewNow(now);
  if (pending_) {
    pending_->exposed = true;  // this client may have missed messages that name it
    AskNow(now);
  }
  cleanups_.RepeatAll(std::max(now, blocked_until_));
}

// When the pending acquire is sent. It must not overtake a release after which the lock stays
// taken: the server would let this client into a reentrant lock. A release is overtaken if the
// server does not know its script yet.
base::Instant LockState::asks_at() const {
  if (cleanups_.stays_taken()) return base::Instant::Infinite();
  return std::max(pending_->due, blocked_until());
}

base::Instant LockState::next_request_at() const {
  base::Instant next = std::min(cleanups_.due(), handover_check_.due());
  if (pending_ && !pending_->in_flight) next = std::min(next, asks_at());
  if (cached()) next = std::min(next, grant_->cached_until);
  const bool renews = grant_ && !grant_->renewing && grant_->renew_due < next_expiry();
  return renews ? std::min(next, grant_->renew_due) : next;
}

void LockState::AddStateTo(LockStats& stats) const {
  stats.waiting += waiting();
  stats.releasing += releasing();
  stats.released -= releasing();
  stats.held += grant_ ? grant_->holds.size() : 0;
  if (config_.use == GrantUse::kPermit && held()) stats.permits += grant_->terms.permits;
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

uint64_t LockState::releasing() const {
  const uint64_t holds = grant_ && !held() && !cached() ? 1 : 0;
  return holds + cleanups_.releasing();
}

// ---- How long a waiter waits: for a lock that is taken, and for a server that does not answer.

void LockState::Wake(Waiter& waiter, Effects& effects) {
  if (NeedsWake(waiter)) effects.wakes.push_back(&waiter);
}

BusyWith LockState::HolderFor(const Waiter& waiter) const {
  if (!held()) return BusyWith::kOthers;
  const LocalHold* const mine = waiter.thread == 0 ? nullptr : FindOf(waiter.thread);
  return mine != nullptr ? BusyWith::kThisThread : BusyWith::kThisClient;
}

void LockState::Decide(Waiter& waiter, Waiter::State state, Effects& effects) {
  waiter.state = state;
  if (state == Waiter::State::kBusy) waiter.busy_with = HolderFor(waiter);
  // Silence that the server has broken since does not follow the waiter.
  if (state == Waiter::State::kElsewhere) waiter.silent_since = server_.Since(waiter.silent_since);
  if (state != Waiter::State::kGranted) tally_.CountEnd(state);
  Wake(waiter, effects);
}

// Ends the waiters that began by then and have that limit, or any if none is given. If `why` is OK,
// the lock is busy.
void LockState::FailIf(std::optional<WaitLimit> wait_limit, base::Instant begun_by,
                       const absl::Status& why, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    const bool ends = !wait_limit || waiter->wait_limit == *wait_limit;
    if (!ends || begun_by < waiter->began) continue;
    queue_.Remove(*waiter);
    waiter->failure = base::Unshared(why);
    Decide(*waiter, why.ok() ? Waiter::State::kBusy : Waiter::State::kFailed, effects);
  }
}

void LockState::RefuseImpatient(Effects& effects) {
  FailIf(WaitLimit::kNone, base::Instant::Infinite(), absl::OkStatus(), effects);
}

// An acquire that was sent at `sent` went unanswered.
void LockState::OnUnreachable(base::Instant sent, const absl::Status& why, base::Instant now,
                              Effects& effects) {
  base::Instant since = sent;
  if (!server_.silent()) {
    for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) {
      since = std::min(since, server_.Since(waiter->silent_since));
      // From now on the waiter must limit its wait.
      if (waiter->wait_limit == WaitLimit::kEndless) Wake(*waiter, effects);
    }
  }
  server_.Unanswered(since, why);
  if (config_.unreachable_after <= now - server_.since()) {
    FailIf(WaitLimit::kEndless, now - config_.unreachable_after, server_.why(), effects);
  }
}

bool LockState::KnowsWhy(const Waiter& waiter) const {
  return (grant_ && !shared()) || server_.silent() || (pending_ && pending_->queued) ||
         waiter.since <= taken_at_;
}

bool LockState::IsInTheWay(const Waiter& waiter) const {
  if (!server_.silent()) return false;
  for (const Waiter* other = queue_.head(); other != nullptr; other = other->next) {
    if (other != &waiter && other->wait_limit != WaitLimit::kNone) return true;
  }
  return false;
}

base::Instant LockState::GivesUpAt(const Waiter& waiter, base::Instant sent) const {
  if (waiter.wait_limit != WaitLimit::kEndless) return base::Instant::Infinite();
  const auto after = [&](base::Instant silent) {
    return std::max(silent, waiter.began) + config_.unreachable_after;
  };
  const base::Instant met = server_.Since(waiter.silent_since);
  if (server_.silent()) return after(std::min(server_.since(), met));
  // Since when the server has owed the waiter an answer.
  base::Instant asked = sent;
  if (grant_) {
    if (shared()) asked = std::min(asked, waiter.since);  // whether it may join
  } else if (pending_ && pending_->in_flight) {
    asked = std::min(asked, pending_->attempts.back().sent);
  }
  if (asked.is_infinite()) return asked;
  // If no request has gone unanswered yet, a healthy server gets some extra time.
  return std::min(after(asked) + kAnswerGrace, after(met));
}

void LockState::GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects) {
  if (waiter.state != Waiter::State::kWaiting) return;
  queue_.Remove(waiter);
  Waiter* const head = queue_.head();
  if (config_.listens && head != nullptr) Wake(*head, effects);  // it may have to listen now
  waiter.state = as;
  if (as == Waiter::State::kBusy &&
      (server_.silent() || !KnowsWhy(waiter) || waiter.wait_limit == WaitLimit::kEndless)) {
    waiter.state = Waiter::State::kFailed;
    if (server_.silent()) waiter.failure = base::Unshared(server_.why());
    if (waiter.failure.ok()) {
      waiter.failure =
          base::MakeStatus(absl::StatusCode::kUnavailable, "the server did not answer in time");
    }
  }
  tally_.CountEnd(waiter.state);
  Expire(now, effects);
  if (waiter.state == Waiter::State::kBusy) waiter.busy_with = HolderFor(waiter);
  if (grant_ && !held()) return Settle(0, FencingToken(), absl::ZeroDuration(), now, effects);
  UpdatePending(now);
}

void LockState::StopAll(const void* object, base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (waiter->object != object) continue;
    GiveUp(*waiter, Waiter::State::kStopped, now, effects);
    Wake(*waiter, effects);
  }
}

// ---- The handover check.

void HandoverCheck::Add(base::Instant due) {
  if (none()) {
    due_ = due;
  } else if (then_.is_infinite() || then_ < due) {
    then_ = due;
  }
}

void HandoverCheck::AddAtOnce(base::Instant now, base::Instant then) {
  then = std::min({then, then_, due_ > now ? due_ : then});
  *this = {};
  due_ = now;
  then_ = then;
}

std::optional<Request> HandoverCheck::Next(base::Instant now, base::Numbers& numbers) {
  if (in_flight_ || now < due_) return std::nullopt;
  in_flight_ = true;
  if (grant_ == 0) grant_ = numbers.NextSecret();
  return Request{.what = CancelRequest(), .grant = grant_, .sent = now};
}

void HandoverCheck::OnResult(const Result& result, base::Instant now) {
  in_flight_ = false;
  if (result.failed() != nullptr && ++failures_ < kMostChecks) {
    due_ = now + Spread(kFirstBackoff, kLongestBackoff, failures_, grant_);
    return;
  }
  Done();
}

void HandoverCheck::Done() {
  const base::Instant then = then_;
  *this = {};
  due_ = then;
}

}  // namespace redlatch::internal
