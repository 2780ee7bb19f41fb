#ifndef REDLATCH_SRC_LOCK_STATE_LOCK_STATE_H_
#define REDLATCH_SRC_LOCK_STATE_LOCK_STATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/lock/state/pending_cleanups.h"
#include "src/lock/state/request.h"
#include "src/lock/state/tally.h"
#include "src/lock/state/timing.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// An acquire that is being made, is queued, or must be repeated.
struct PendingAcquire {
  AcquireRequest acquire;
  bool in_flight : 1 = false;
  bool uncertain : 1 = false;  // an attempt went unanswered, and may be executed at any time
  bool queued : 1 = false;
  // The request in flight may have been sent too early to see the present state: another one
  // follows its result, a renewal if that grants the lock.
  bool again : 1 = false;
  bool ask_again : 1 = false;  // the first thread that runs repeats it: it may be its turn
  bool claimed : 1 = false;    // a grant came by message whose claim is too short to work under
  bool listens : 1 = false;    // on the lock's channel, when its waiter last looked
  // others may know the id: messages are not believed, the server is asked
  bool exposed = false;
  uint32_t failures = 0;
  uint32_t polls = 0;  // because of a foreign owner, or without messages
  struct Attempt {
    uint32_t number;
    base::Instant sent;
  };
  absl::InlinedVector<Attempt, 2> attempts;  // those that a grant may name
  base::Instant due;
  base::Instant heartbeat = base::Instant::Infinite();  // when it is due even if nothing happens
  base::Instant votes_due = base::Instant::Infinite();  // asks then for those that are missing
  base::Instant first_sent;
  base::Instant began;  // the start of the wait
};

// What the server granted, and the holds under it.
struct Grant {  // members are ordered to leave no gaps: a client may have very many
  GrantId id = 0;
  Terms terms;
  uint32_t attempt = 0;  // the attempt that was granted
  int retakes_left = 0;
  bool claimed = false;       // granted for `claim` so far, not for the lease
  bool brief : 1 = false;     // a claim under which the client may cache it in its turn
  bool others : 1 = false;    // other clients waited when the server last said so
  bool queued : 1 = false;    // it was granted after a wait, so other clients may come again
  bool recalled : 1 = false;  // another client has asked for it
  bool tried : 1 = false;     // another client has lately tried to get the lock and found it cached
  // it may be cached or shared, or its holds are told of waiters, so recalls must arrive at once
  bool recallable : 1 = false;
  bool extends : 1 = false;  // it was a manual hold: Extend() may be called
  bool native : 1 = false;   // acquired natively and never renewed: it may be released so, too
  bool pinned = false;       // not passed on inside the client
  bool in_flight = false;    // an attempt of its acquire is in flight
  bool uncertain = false;
  bool acked = false;      // by all that its terms require
  int16_t acked_by = 0;    // replicas, at the last confirmation
  absl::Duration claim;    // zero if it had the lease from the start
  base::Instant deadline;  // another client may be the owner from then on
  base::Instant lost_at;   // this client considers it lost from then on; somewhat before `deadline`
  base::Instant server_expires;  // the server has forgotten it from then on
  base::Instant asked;           // when the request that reported `others` was sent
  base::Instant turn_ends;       // this client may keep it until then although others wait
  base::Instant cached_until;    // cached until then; Instant() if it is not cached
  uint64_t next_token = 0;
  uint64_t last_token = 0;
  uint64_t first_token = 0;
  uint64_t taken_until = 0;                 // as in ReleaseRequest
  base::Instant reserved;                   // when the request that reserved the tokens was sent
  absl::InlinedVector<LocalHold, 1> holds;  // several if the grant is shared
  base::Instant renew_due;
  bool renewing = false;
  bool again = false;     // as in PendingAcquire
  bool forced = false;    // a message said so; the server's result will tell
  bool at_risk = false;   // its thread was told
  uint32_t failures = 0;  // of renewals, since the last success
  absl::Status last_failure;
};

// Since when, and why, the server has not answered.
class Reachability {
 public:
  // Returns true if a request went unanswered and none has been answered since.
  bool silent() const { return !since_.is_infinite(); }
  // REQUIRES: silent().
  base::Instant since() const { return since_; }
  const absl::Status& why() const { return why_; }

  void Answered(base::Instant now) {
    since_ = base::Instant::Infinite();
    answered_at_ = now;
  }
  void Unanswered(base::Instant since, const absl::Status& why) {
    why_ = base::Unshared(why);
    if (!silent()) since_ = since;
  }
  // No caller waits for the server any more.
  void Forget() { since_ = base::Instant::Infinite(); }

  // A silence that a waiter met elsewhere, or Infinite() if the server has answered here since.
  base::Instant Since(base::Instant met) const {
    return answered_at_ < met ? met : base::Instant::Infinite();
  }

 private:
  base::Instant since_ = base::Instant::Infinite();
  base::Instant answered_at_;  // when the server last answered
  absl::Status why_;
};

// Checks whether a lock that was handed over by message was taken. A check is a cancel of an
// acquire that was never made: it changes nothing, unless the new owner is frozen or unsubscribed;
// then it passes the lock on. One check is in flight at a time. Of later ones only the latest is
// kept, since all claims are over by then.
class HandoverCheck {
 public:
  bool none() const { return due_.is_infinite(); }
  // Schedules a check.
  void Add(base::Instant due);
  // Schedules a check for now that no other replaces, and perhaps another one at `then`.
  void AddAtOnce(base::Instant now, base::Instant then);
  void Clear() { *this = {}; }
  // The check that is due has been made, or another request does the same.
  void Done();

  std::optional<Request> Next(base::Instant now, base::Numbers& numbers);
  // When Next() returns a request, if nothing happens before.
  base::Instant due() const { return in_flight_ ? base::Instant::Infinite() : due_; }
  // Returns true if the request was a check; then OnResult() takes its result.
  bool Made(const Request& request) const { return grant_ == request.grant; }
  void OnResult(const Result& result, base::Instant now);

 private:
  GrantId grant_ = 0;  // the id of the check, once it was sent
  base::Instant due_ = base::Instant::Infinite();
  base::Instant then_ = base::Instant::Infinite();  // when the following one is due
  bool in_flight_ = false;
  uint32_t failures_ = 0;
};

// How the threads of one client use a grant.
enum class GrantUse : uint8_t {
  kExclusive,  // one thread after the other, each with a fencing token of its own
  kShared,     // readers: all at once, each with a hold of its own
  kPermit,     // a grant per acquisition, in a state of its own
  kLatch,      // nothing is held: a grant lets all waiters through
};

// How many acquisitions after contention are by script, at most. Shorter in tests.
inline uint16_t longest_native_pause = 1024;

// The decisions of one client about one lock: what to ask the server and when, what its results
// mean, which thread has the lock, and how long each waiter waits. Pure: no I/O, no clock, no
// thread. An event comes with the time at which it happens. Its consequences are in the Effects, in
// NextRequest() and in the two timers.
//
//   the client has              which means                              until
//   nothing                     no thread here waits                     a waiter comes
//   a pending acquire           the request is being made, is queued,    a grant (by result or by
//                               or must be repeated after a failure      message); the last waiter
//                                                                        leaves
//   a pending acquire, claimed  a message named this client the owner,   a result
//                               for too short a claim to work under
//   a grant, claimed            a message named this client the owner    its confirmation
//   a grant                     the server named this client the owner   Release(), a loss
//   a cached grant              no thread uses it, but one may again     a thread, a recall, time
//
// Under a grant, one hold follows another as long as the client's turn lasts. In between, the lock
// is free for the thread that comes first, while the first waiter, which has been woken, is on its
// way.
//
// Besides, there may be pending cleanups (grants to release and requests to cancel, each repeated
// until it is answered or its lease must be over) and a handover check.
//
// A latch is a lock that all waiters get at once, and that no thread holds.
//
// Not thread-safe.
class LockState {
 public:
  struct Config {  // every entry has one: members are ordered to leave no gaps
    GrantUse use = GrantUse::kExclusive;
    bool reentrant : 1 = false;  // a shared grant is always so
    // All holds belong to one explicit Owner: no thread may be given another thread's hold.
    bool explicit_owner : 1 = false;
    bool several : 1 = false;  // of several names: a release does not queue the client again
    // Messages come on a channel of the lock, to those who listen. They let the waiter ask again.
    bool listens : 1 = false;
    bool counts : 1 = false;       // keeps a tally
    bool tells_token : 1 = false;  // an observer is told the token of each hold
    // How often a running thread may take the lock before the thread that has waited longest.
    int retakes = 16;
    PackedDuration longest_heartbeat{absl::Seconds(10)};
    absl::Duration unreachable_after = absl::Seconds(10);
    base::Numbers* numbers = nullptr;  // of grants and holds; the client's
  };

  explicit LockState(const Config& config) : config_(config) {}
  LockState(const LockState&) = delete;
  LockState& operator=(const LockState&) = delete;

  // ---- Calls of threads.

  // Reserves memory for the consequences of the end of a hold, and perhaps for one more reader.
  // Returns false if there is none.
  bool MakeRoom(bool for_reader = false) noexcept;

  // Decides the waiter at once (its state says so), or queues it.
  void Acquire(Waiter& waiter, base::Instant now, Effects& effects);
  // The waiter's time is over, or it was stopped. If it has been decided in the meantime, that
  // stands. `as` kBusy becomes kFailed unless the lock is known to be taken, that is, if the server
  // has not answered since the waiter came.
  void GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects);
  // Returns true if, since the waiter came, the lock is known to be taken or unreachable. Before
  // that, a waiter that gives up could not give a reason.
  bool KnowsWhy(const Waiter& waiter) const;
  // When an endless waiter has waited long enough for a server that does not answer, or Infinite().
  // `sent`: when the waiter's thread sent the request that is not answered yet.
  base::Instant GivesUpAt(const Waiter& waiter, base::Instant sent) const;
  // Returns true if the server is silent and another waiter that does not need an answer at once
  // waits too. An attempt that ends with this waiter's call would not tell the other one about a
  // slow server.
  bool IsInTheWay(const Waiter& waiter) const;
  // A waiter's thread was woken undecided: it checks whether the lock is free.
  void OnWoken(Waiter& waiter, base::Instant now, Effects& effects);
  // The waiters of a lock object that is gone end as kStopped.
  void StopAll(const void* object, base::Instant now, Effects& effects);
  // The call ends before it could become a waiter.
  void Refuse(Waiter& waiter, Waiter::State as) {
    waiter.state = as;
    tally_.CountEnd(as);
  }

  // A waiter whose thread is about to sleep, and one whose thread runs again.
  static void Park(Waiter& waiter) { waiter.parked = true; }
  static void Unpark(Waiter& waiter) { waiter.parked = waiter.wake_pending = false; }
  // Returns true if its thread must be woken: it sleeps, and no other thread is waking it.
  static bool NeedsWake(Waiter& waiter) {
    return waiter.parked && !std::exchange(waiter.wake_pending, true);
  }

  // Enters the thread's hold once more. Returns nothing if there is none. A manual hold that is
  // entered without a lease (`manual` is false) is renewed from then on.
  std::optional<HoldRef> Reenter(uint64_t thread, Face face, bool manual, base::Instant now);
  // Ends one level of a hold by lock(). Returns false at the last level.
  bool UnlockInner(uint64_t thread);

  // Takes a cached grant for a thread, and leaves it cached. Return false if the caller must take
  // the slow path. Never block.
  bool TakeCachedNow(uint64_t thread, const std::shared_ptr<const LockOptions>& options,
                     base::Instant now);
  bool LeaveCachedNow(uint64_t thread, base::Instant now,
                      std::shared_ptr<const LockOptions>& ended);

  // Ends one level of a hold. A repeated call for an unconfirmed release asks the server again. The
  // outcome is remembered until Outcome() or Forget(). `token`: for the observer, if the hold was
  // lost.
  Released Release(uint64_t hold, base::Instant now, Effects& effects, FencingToken token = {});
  Released Unlock(uint64_t thread, base::Instant now, Effects& effects);
  // The outcome of a release; it is forgotten unless the release is not confirmed.
  Released Outcome(uint64_t hold) { return cleanups_.Outcome(hold); }
  // The call that released the lock returns: its thread could not come again before.
  void OnLeft(base::Instant now) {
    if (left_at_ != base::Instant()) left_at_ = now;
  }
  // No caller will ask for the hold's outcome.
  void Forget(uint64_t hold) { cleanups_.Forget(hold); }
  // No lock object is left through which a thread could unlock: holds by lock() end.
  void ReleaseStd(base::Instant now, Effects& effects);
  // A request that gives a manual hold a new lease; nothing if the hold is renewed, or gone.
  std::optional<Request> Extend(uint64_t hold, absl::Duration lease, base::Instant now);
  // The longest lease that the hold may still get.
  absl::Duration LongestExtension(uint64_t hold, base::Instant now) const;
  // A request after which the name stays taken for that long from now; nothing if the hold is gone.
  // Once it has been answered, OnStaysTaken() sees that a release does the same: see
  // Lease::StayTaken().
  std::optional<Request> StayTaken(uint64_t hold, absl::Duration at_least, base::Instant now);
  void OnStaysTaken(uint64_t hold, absl::Duration at_least);
  // The renewal that replicas must confirm by `by` before a hold with acks counts; nothing if its
  // grant is confirmed, or over.
  std::optional<Request> Confirm(uint64_t hold, base::Instant by, base::Instant now);
  // The renewal that draws a token for the thread's hold, since it was acquired natively; nothing
  // if it has one, or needs none. From now on the lock is acquired with a token.
  std::optional<Request> DrawFor(uint64_t thread, base::Instant now);
  // A thread tried to end a hold that it does not have.
  void OnMisuse() { ++tally_.misused; }

  // A thread's hold, or a hold by lock() that was lost and not yet unlocked (its depth is 0).
  HoldRef OfThread(uint64_t thread) const;
  // The same, with a token and a user-visible state.
  HoldRef Current(uint64_t thread, base::Instant now);
  // The same. The thread is about to read: its hold goes back to the server and is never passed on
  // inside the client, since the thread may continue to read.
  HoldRef Pin(uint64_t thread, base::Instant now);

  // ---- Requests.

  // The next request to run now. The caller runs it and brings the result. `early`: how long before
  // its time a renewal or a heartbeat may be sent, to travel with others.
  std::optional<Request> NextRequest(base::Instant now,
                                     absl::Duration early = absl::ZeroDuration());
  // The release of that hold, if it is due, even if other requests are due too.
  std::optional<Request> NextRequestOf(uint64_t hold, base::Instant now);
  // A release that no caller asks about, if it is due and no acquire follows it.
  std::optional<Request> NextRelease(base::Instant now);
  // The release of that hold is not sent now. It is sent when its driver asks for it again, or
  // before the next acquire.
  void Postpone(uint64_t hold) { cleanups_.Postpone(hold); }
  void OnResult(const Request& request, const Result& result, base::Instant now, Effects& effects);
  // Returns true if the request must be sent again after a failure.
  bool IsWanted(const Request& request) const;

  // ---- Other events.

  // A message. Any client that may publish can send one, so it is believed only once, and only with
  // the secret grant id of the pending acquire and an attempt that was made. Otherwise the server
  // is asked. `proven`: a majority of a quorum's nodes sent it, each with a secret of its own.
  void OnGrant(const NewGrant& news, base::Instant now, Effects& effects, bool proven = false);
  // Another client forced the release of that grant.
  void OnForced(GrantId grant, base::Instant now);
  // It may be this request's turn, which only the server can tell.
  void OnAskAgain(GrantId grant, Effects& effects);
  // Returns true if the waiter's driver must listen on the lock's channel before it sleeps.
  // `listens`: the pending acquire does.
  bool MustListen(const Waiter& waiter, bool listens);
  // It listens now: what was published before is lost.
  void OnListening(base::Instant now);
  // A node of a quorum has voted for this request by message. If the others do not follow soon,
  // they are asked.
  void OnVote(GrantId grant, base::Instant now);
  // Another client wants the lock of that grant. `tried`: it is not queued.
  void OnRecall(GrantId grant, base::Instant now, Effects& effects, bool tried = false);
  // Another client waits for a native grant that this client gave up: its command has come late,
  // and the grant goes back. One at a time, since any client may send such messages.
  void OnUnknownNative(GrantId grant, base::Instant now);
  // Messages reach this client, so others can recall what it caches.
  void OnSubscribed() { subscribed_ = true; }
  void OnUnsubscribed(base::Instant now);
  // The client caches too many grants: this one goes back.
  void OnTooManyCached(base::Instant now);
  // A thread of this client wants the other side of the read-write lock. A cached grant goes back,
  // and the readers' turn ends.
  void EndTurn(base::Instant now);
  // The process exits. What no thread uses goes back, and until `resumes`, nothing is asked for.
  // Returns the next request to send at once.
  std::optional<Request> NextAtExit(base::Instant resumes, base::Instant now, Effects& effects);
  // True if a release is due or in flight. Those that failed are due again.
  bool releases(base::Instant now) { return cleanups_.Hurry(now); }
  // From now on the grant is not cached.
  void EndCaching(base::Instant now);
  // A script may have handed the lock over by message, or be unfinished; see Result.
  void CheckHandoverAfter(absl::Duration check_after, bool unfinished, base::Instant now);
  // Connections are new: any command in flight may be lost.
  void OnReconnected(base::Instant now);
  // Loses a hold whose local deadline has come, or is about to.
  void Expire(base::Instant now, Effects& effects) {
    if (next_expiry() <= now) LoseExpired(now, effects);
  }

  // When NextRequest() returns a request, unless an event happens or the grant expires before.
  base::Instant next_request_at() const;
  base::Instant next_expiry() const { return grant_ ? grant_->lost_at : base::Instant::Infinite(); }

  // ---- Queries.

  // Nothing is held, awaited or to be cleaned up.
  bool vacant() const { return !grant_ && queue_.empty() && !pending_ && cleanups_.empty(); }
  bool idle() const { return vacant() && handover_check_.none(); }
  // The same, but cleanups may be in flight for the first time.
  bool reusable() const { return !grant_ && queue_.empty() && !pending_ && cleanups_.fresh(); }
  // The id of the grant, or of the pending acquire; 0 if there is neither.
  GrantId grant_id() const {
    return grant_ ? grant_->id : pending_ ? pending_->acquire.grant : GrantId{0};
  }
  GrantId pending_acquire() const { return pending_ ? pending_->acquire.grant : GrantId{0}; }
  // How many permits it wants.
  uint32_t pending_permits() const { return pending_ ? pending_->acquire.terms.permits : 0; }
  // Other clients may recall the grant.
  bool recallable() const { return grant_ && grant_->recallable; }
  // Its terms allow it to be cached.
  bool cacheable() const { return grant_ && grant_->terms.cacheable; }
  // Until when the grant is cached; Instant() if it is not.
  base::Instant cached_until() const { return grant_ ? grant_->cached_until : base::Instant(); }
  // A thread has the grant, may take it from the cache, or must still unlock a lost hold.
  bool in_use() const { return held() || cached() || (lost_std_ && !lost_std_->empty()); }
  bool Valid(uint64_t hold, base::Instant now) const;
  base::Instant Deadline(uint64_t hold) const;  // Instant() if it is over

  void AddCountsTo(LockStats& stats) const { tally_.AddTo(stats, cleanups_.failed()); }
  void AddStateTo(LockStats& stats) const;
  uint64_t waiting() const;    // waiters in the queue
  uint64_t releasing() const;  // holds that threads have released, and the server has not

 private:
  bool exclusive() const { return config_.use == GrantUse::kExclusive; }
  bool shared() const { return config_.use == GrantUse::kShared; }
  bool latch() const { return config_.use == GrantUse::kLatch; }
  bool held() const { return grant_ && !grant_->holds.empty(); }
  bool cached() const { return grant_ && grant_->cached_until != base::Instant(); }
  bool Has(GrantId grant) const { return grant_ && grant_->id == grant; }
  bool IsPending(GrantId grant) const { return pending_ && pending_->acquire.grant == grant; }

  base::Instant asks_at() const;
  // Readers and permits of this client do not wait for each other.
  base::Instant blocked_until() const {
    return exclusive() || exits_ ? blocked_until_ : base::Instant();
  }

  uint64_t NextHold() { return config_.numbers->Next(); }
  GrantId NextGrant() { return config_.numbers->NextSecret(); }

  // Waiters.
  void Enqueue(Waiter& waiter, base::Instant now);
  void Decide(Waiter& waiter, Waiter::State state, Effects& effects);
  BusyWith HolderFor(const Waiter& waiter) const;
  static void Wake(Waiter& waiter, Effects& effects);
  void FailIf(std::optional<WaitLimit> wait_limit, base::Instant begun_by, const absl::Status& why,
              Effects& effects);
  void RefuseImpatient(Effects& effects);
  void OnUnreachable(base::Instant sent, const absl::Status& why, base::Instant now,
                     Effects& effects);

  // Threads of this client.
  bool CanPass(const Waiter& waiter, base::Instant now) const;
  base::Instant Draw(LocalHold& hold, base::Instant now);
  LocalHold& BeginHold(LocalHold hold, base::Instant waited_since);
  void GiveTo(Waiter& waiter, base::Instant now, Effects& effects);
  void GiveToHead(base::Instant now, Effects& effects);
  bool MayJoinRequest(const Waiter& waiter, base::Instant now) const;
  void Join(Waiter& waiter, base::Instant now, Effects& effects);
  void LetJoin(base::Instant now, Effects& effects);
  bool Enter(Waiter& waiter, base::Instant now, Effects& effects);
  void LetOwnerIn(base::Instant now, Effects& effects);
  void LetAllThrough(base::Instant now, Effects& effects);
  bool IsWanted() const;
  static void NoteOthers(Grant& grant, int64_t others);
  void TellIfWanted(Effects& effects);
  void Settle(uint64_t ended, FencingToken token, absl::Duration cache_for, base::Instant now,
              Effects& effects);

  // The cache.
  bool MayCache() const;
  void NoteContention(bool others);
  void BeginTurn(base::Instant now, absl::Duration turn);
  bool InTurn(const Waiter& waiter, base::Instant now) const;
  base::Instant StaysUntil(base::Instant now) const;
  bool HasTokens() const { return grant_->next_token <= grant_->last_token; }
  bool Cache(absl::Duration cache_for, base::Instant now);
  void NoteReturn(base::Instant now);
  bool ServesAgainWithin(absl::Duration turn) const;
  bool TakeCached(Waiter& waiter, base::Instant now, Effects& effects);
  void GiveBack(base::Instant now, uint64_t hold = 0, FencingToken token = {});

  // Holds.
  const LocalHold* Find(uint64_t hold) const;
  LocalHold* Find(uint64_t hold) { return const_cast<LocalHold*>(std::as_const(*this).Find(hold)); }
  const LocalHold* FindOf(uint64_t thread) const;
  LocalHold* FindOf(uint64_t thread) {
    return const_cast<LocalHold*>(std::as_const(*this).FindOf(thread));
  }
  std::shared_ptr<HoldState> ViewOf(LocalHold& hold) const;
  Released ReleaseLevel(LocalHold& hold, Face face, base::Instant now, Effects& effects);
  std::shared_ptr<const LockOptions> EndHold(const LocalHold& hold, base::Instant now);
  LocalHold* FindLost(uint64_t thread) const;

  // The pending acquire.
  void UpdatePending(base::Instant now);
  void DropPending(base::Instant now);
  void Cancel(const AcquireRequest& acquire, bool tombstone, base::Instant now);
  AcquireRequest NextAcquire(base::Instant now, bool contended);
  bool MayBeNative() const;
  AcquireRequest NextNativeAcquire(base::Instant now);
  void OnNativeResult(const Request& request, const Result& result, base::Instant now,
                      Effects& effects);
  void NoteGranted(const NewGrant& news, bool others);
  void PauseNatives();
  Request WithAcquire(PendingCleanups::Due due, base::Instant now);
  void AskNow(base::Instant now);
  void ConfirmFirst(base::Instant now, Effects& effects);
  void PollSoon(GrantId grant, base::Instant now);

  // Results of acquire requests.
  void OnAcquireResult(const Request& request, const Result& result, base::Instant now,
                       Effects& effects);
  void OnQueued(const AcquireQueued& result, base::Instant now, Effects& effects);
  void OnBusy(base::Instant now, Effects& effects);
  void OnAcquireFailed(const Request& request, const Failed& failed, base::Instant now,
                       Effects& effects);
  bool OnLateResult(const Request& request, const Result& result, base::Instant now,
                    Effects& effects);
  void OnGranted(const NewGrant& news, base::Instant asked, bool is_claim, base::Instant now,
                 Effects& effects);

  // The grant.
  void Prolong(base::Instant sent, absl::Duration lease, base::Instant now);
  void EndWithHold();
  base::Instant HoldEnds() const;
  bool LastsToItsEnd() const;
  void RenewNow(base::Instant now);
  std::optional<Request> NextRenewal(base::Instant now, absl::Duration early);
  Request Renewal(absl::Duration lease, base::Instant now);
  void OnRenewal(const Request& request, const Result& result, base::Instant now, Effects& effects);
  void OnHeld(const Request& request, const StillHeld& result, bool extension, base::Instant now,
              Effects& effects);
  // Returns true if the observer is told of renewals. A confirmation is part of the acquisition.
  bool TellsOfRenewals() const { return held() && !grant_->terms.manual && !grant_->claimed; }
  void AddCleanup(PendingCleanups::PendingCleanup cleanup, base::Instant now);
  void LoseExpired(base::Instant now, Effects& effects);
  void Lose(LossReason reason, base::Instant release_at, base::Instant now, Effects& effects);

  const Config config_;
  WaiterQueue queue_;
  std::optional<PendingAcquire> pending_;
  std::optional<Grant> grant_;
  PendingCleanups cleanups_;
  HandoverCheck handover_check_;
  Reachability server_;
  Tally tally_;
  uint64_t last_token_ = 0;  // the first token of the latest grant
  // Holds by lock() that were lost and are not yet unlocked. Null if there can be none.
  std::unique_ptr<std::vector<LocalHold>> lost_std_;
  LatchCounts latch_counts_;  // the most that the server has reported

  // How long this client usually waits for the lock. A much longer wait may mean that messages were
  // lost, so the client asks before its heartbeat is due.
  PackedDuration usual_wait_;
  // A grant that expires is reported lost somewhat before its deadline, so that its thread can
  // stop. Until that deadline, this client lets no other thread in.
  base::Instant blocked_until_;
  base::Instant taken_at_;  // when the lock was last known to be taken, by any client
  // When a thread last ended the last hold here, until the next one comes. And how long threads
  // have lately stayed away in between: the last time, and the longest, of which each return
  // forgets half.
  base::Instant left_at_;
  PackedDuration last_away_;
  PackedDuration away_{absl::InfiniteDuration()};
  PackedDuration turn_;  // that of the latest waiter
  bool misses_ = false;  // no message has reached this client since

  bool exits_ : 1 = false;       // the process exits: the lock goes back with each release
  bool subscribed_ : 1 = false;  // messages reach this client, so it learns of recalls
  bool may_cache_ : 1 = false;   // a lock object exists through which a thread may come again
  // Others were there when this client last had the lock. Readers do not see each other, and a
  // semaphore has room for others, so for those it is remembered for several grants.
  unsigned contended_ : 4 = 0;
  bool left_cached_ : 1 = false;    // at `left_at_`, the grant was cached
  bool short_hold_ : 1 = false;     // the last hold took no more than half a turn
  bool wants_tokens_ : 1 = false;   // a thread has asked for a token of a native hold
  bool released_once_ : 1 = false;  // the memory for the next release is reserved
  // A read grant is worth caching if at least this many acquisitions happen between two recalls.
  static constexpr unsigned kOfUse = 2;
  unsigned served_ : 2 = kOfUse;  // acquisitions since the last recall, at most kOfUse
  bool serves_ : 1 = true;        // there were as many between the last two recalls

 public:
  bool recallable_noted : 1 = false;  // used by ClientCore: it has acted on recallable()
  bool cacheable_noted : 1 = false;   // the value of cacheable() when it did so
  uint32_t tried_s = 0;               // when another client last tried and found the lock cached

 private:
  uint32_t recalled_s_ = 0;  // when a try last recalled the grant of another client
  // After contention, that many acquisitions are by script. The pause doubles each time, and
  // becomes shorter with each native release.
  uint16_t native_pause_ = 0;
  uint16_t scripts_left_ = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_LOCK_STATE_H_
