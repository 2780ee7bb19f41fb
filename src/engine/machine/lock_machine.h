#ifndef REDLATCH_SRC_ENGINE_MACHINE_LOCK_MACHINE_H_
#define REDLATCH_SRC_ENGINE_MACHINE_LOCK_MACHINE_H_

#include <atomic>
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
#include "src/engine/machine/debts.h"
#include "src/engine/machine/effects.h"
#include "src/engine/machine/held.h"
#include "src/engine/machine/looks.h"
#include "src/engine/machine/reachability.h"
#include "src/engine/machine/remote_state.h"
#include "src/engine/machine/script_io.h"
#include "src/engine/machine/sharing.h"
#include "src/engine/machine/tally.h"
#include "src/engine/machine/waiter.h"

namespace redlatch::engine {

// The decisions of one client about one lock: who of its threads has it, what to ask of the server
// and when, what its answers mean. Pure: no I/O, no clock, no thread. Events come in with the time
// at which they happen; what follows is in the Effects, in NextSend() and in the two timers.
//
//   remote state      means                                       leaves it by
//   nothing           no thread wants the lock                    Acquire
//   pursuit           a bid is being made, is queued, or must     a grant (reply or message),
//                     be repeated after a failure                 the last waiter's end
//   pursuit, claimed  a message named us the owner for a claim    the server's word
//                     too short to work under
//   grant, claimed    a message named us the owner for a claim    its confirmation
//   grant             the server named us the owner               Release, loss
//
// A script by which the lock was handed over by message is followed by a look, when the claim is
// over: if the new owner is frozen or deaf, that passes the lock on.
//
// Beside that there may be debts: grants to be released or bids to be cancelled at the server, each
// repeated until it is answered or the lease must be over.
//
// Within a grant one hold follows another while the local window is open. Between two it is
// free for whoever comes first, while the head of the queue, which has been poked, is on its way.
//
// Not thread-safe.
class LockMachine {
 public:
  struct Config {
    bool reentrant = false;
    // All holds of this machine belong to one explicit Owner: no thread may be given another's.
    bool explicit_owner = false;
    Sharing sharing = kExclusive;  // `joins` implies `reentrant`
    absl::Duration longest_heartbeat = absl::Seconds(10);
    absl::Duration unreachable_after = absl::Seconds(10);
    bool counts = false;                       // keeps a tally
    std::atomic<uint64_t>* numbers = nullptr;  // for grants and holds; the client's
  };

  explicit LockMachine(const Config& config) : config_(config) {}
  LockMachine(const LockMachine&) = delete;
  LockMachine& operator=(const LockMachine&) = delete;

  // ---- What threads do.

  // Takes what the thread has already once more; nothing where it has nothing that it may.
  std::optional<Held> Reenter(uint64_t thread, Face face, base::Instant now);
  // Ends what Reenter() began; false where it is the last level, or none.
  bool ReleaseInner(uint64_t thread, Face face);

  // The waiter is decided at once (its state says so), or queued. Of a machine that shares grants
  // it joins the present one where the server is known to let readers in, or asks whether it is.
  void Acquire(Waiter& waiter, base::Instant now, Effects& effects);
  // Its time is over, or its stop token fired. Where it was decided meanwhile, that stands. `as`
  // kBusy becomes kFailed where nobody knows that the lock is taken: the server does not answer, or
  // has not answered since the waiter came.
  void GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects);
  // Whether it is known since the waiter came that the lock is taken, or cannot be reached: where
  // it is not, giving up now would be for no reason.
  bool KnowsWhy(const Waiter& waiter) const;
  // When an endless waiter has waited long enough for a server that does not answer; Infinite()
  // where that is not so. `sent`: when its thread has sent what is not answered yet.
  base::Instant GivesUpAt(const Waiter& waiter, base::Instant sent) const;
  // Whether the server is silent, and somebody else waits who is not refused at once: an attempt
  // that ends with the call of this waiter would tell him nothing of a server that is only slow.
  bool IsInTheWay(const Waiter& waiter) const;
  // A thread that was woken undecided looks whether the lock is free.
  void Poked(Waiter& waiter, base::Instant now, Effects& effects);

  // A waiter whose thread is about to sleep, and one whose thread runs again.
  static void Park(Waiter& waiter) { waiter.parked = true; }
  static void Unpark(Waiter& waiter) { waiter.parked = waiter.wake_pending = false; }
  // Whether its thread is to be woken: it sleeps, and nobody does that already.
  static bool Rouse(Waiter& waiter) {
    return waiter.parked && !std::exchange(waiter.wake_pending, true);
  }

  // The lock object by which they wait is gone: they end as kStopped.
  void StopAll(const void* object, base::Instant now, Effects& effects);

  // Ends one level of a hold. A repeated call for one that is under way asks the server again.
  // What is under way, settled or not, is kept until Outcome() or Forget().
  Released Release(uint64_t hold, base::Instant now, Effects& effects);
  Released Unlock(uint64_t thread, base::Instant now, Effects& effects);
  // What became of it since; forgets it unless it is under way.
  Released Outcome(uint64_t hold) { return debts_.Outcome(hold); }
  // Nobody will ask for the hold's outcome any more.
  void Forget(uint64_t hold) { debts_.Forget(hold); }
  // No lock object is left by which a thread could unlock: what was taken by lock() ends.
  void ReleaseStd(base::Instant now, Effects& effects);
  // The thread comes to read: a hold that it has goes back to the server and never passes on inside
  // the client, as the thread may read on.
  Held Pin(uint64_t thread);
  // A script that gives a manual hold a new lease; nothing where it is renewed, or gone.
  std::optional<Send> Extend(uint64_t hold, absl::Duration lease, base::Instant now);

  // ---- Scripts.

  // The next script to run now; whoever fetches it runs it and brings the answer. `early` is how
  // much sooner than due a renewal may be, to travel with others.
  std::optional<Send> NextSend(base::Instant now, absl::Duration early = absl::ZeroDuration());
  // The release of that hold, where it is due: whatever else is, its own thread runs this.
  std::optional<Send> NextSendOf(uint64_t hold, base::Instant now);
  void OnAnswer(const Send& send, const Answer& answer, base::Instant now, Effects& effects);
  // False: what this script is for is over, so that it need not be sent again.
  bool Wants(const Send& send) const;

  // ---- What else happens.

  // A message. False where the grant is unknown here.
  bool OnGrant(const NewGrant& news, base::Instant now, Effects& effects);
  // A bid that nobody here wants any more was granted or queued: it is cancelled.
  void OnUnwanted(GrantId grant, absl::Duration lease, uint32_t block, base::Instant now);
  // What the grant has, or the bid waits for, was changed by somebody else.
  void OnForced(GrantId grant, base::Instant now);
  // Of a latch: how many have counted it down.
  void OnTold(const Told& told);
  // A thread used what it does not have, and was told so.
  void OnMisuse();
  // A call ended so before it could become a waiter.
  void OnRefused(Waiter::State as) { CountEnd(as); }
  // A script handed the lock over by message, or, with a look of a millisecond, is to go on at
  // once; `later` is then the look after what it handed over itself.
  void LookAfter(absl::Duration look, base::Instant now,
                 absl::Duration later = absl::ZeroDuration());
  // Connections are new: whatever was under way may be lost.
  void OnReconnected(base::Instant now);
  // Loses a hold whose local deadline has come, or is about to.
  void Expire(base::Instant now, Effects& effects);

  base::Instant next_send() const;  // when NextSend() has something, if nothing happens before
  base::Instant next_expiry() const;

  // ---- What is so.

  bool idle() const;
  // Nothing is held here, awaited or owed: others may use it.
  bool vacant() const;
  // What it bids for, or has; 0: neither.
  GrantId grant() const { return pursuit_ ? pursuit_->bid.grant : grant_ ? grant_->id : 0; }
  // A thread has it, or is still to unlock what it lost.
  bool in_use() const { return held() || !lost_std_.empty(); }
  absl::InlinedVector<uint64_t, 1> holds() const;  // the current ones
  bool Valid(uint64_t hold, base::Instant now) const;
  base::Instant Deadline(uint64_t hold) const;  // Instant() where it is over
  // Of OfThread(); null where that is nothing.
  std::shared_ptr<HoldView> ViewOf(uint64_t thread);

  void AddCountsTo(LockStats& stats) const { tally_.AddTo(stats, debts_.failed()); }
  uint64_t releasing() const;  // holds that their threads have released, and the server not yet
  uint64_t waiting() const;    // waiters in the queue
  // What the server knows them to have: of permits, those of all holds.
  uint32_t permits() const { return held() ? grant_->terms.permits : 0; }

  // A thread's hold, or one by lock() that was lost and not yet unlocked (its depth is 0 then).
  Held OfThread(uint64_t thread) const;

 private:
  struct LostStd {  // a hold by lock() that was lost: its unlock() is still to come
    uint64_t thread;
    uint64_t hold;
    FencingToken token;
    uint32_t depth;
    std::shared_ptr<HoldView> view;
  };

  bool joined() const { return config_.sharing.joins; }
  bool held() const { return grant_ && !grant_->holds.empty(); }
  uint64_t NextNumber() {
    return config_.numbers->fetch_add(kNumberStep, std::memory_order_relaxed) + kNumberStep;
  }

  // Between threads (lock_machine_local.cc).
  void Decide(Waiter& waiter, Waiter::State state, Effects& effects);
  static void Wake(Waiter& waiter, Effects& effects);
  bool CanPass(const Waiter& waiter, base::Instant now) const;
  void GiveTo(Waiter& waiter, base::Instant now, Effects& effects);
  void GiveToHead(base::Instant now, Effects& effects);
  void Join(Waiter& waiter, base::Instant now, Effects& effects);
  void LetJoin(base::Instant now, Effects& effects);
  void Settle(uint64_t ended, FencingToken token, base::Instant now, Effects& effects);

  // Holds (lock_machine_holds.cc).
  const ThreadHold* Find(uint64_t hold) const;
  ThreadHold* Find(uint64_t hold) {
    return const_cast<ThreadHold*>(std::as_const(*this).Find(hold));
  }
  const ThreadHold* FindOf(uint64_t thread) const;
  ThreadHold* FindOf(uint64_t thread) {
    return const_cast<ThreadHold*>(std::as_const(*this).FindOf(thread));
  }
  std::shared_ptr<HoldView> ViewOf(ThreadHold& hold) const;
  Released ReleaseLevel(ThreadHold& hold, Face face, base::Instant now, Effects& effects);
  void EndHold(const ThreadHold& hold, base::Instant now, Effects& effects);

  // Patience (lock_machine_patience.cc).
  // Those whose call began at `begun_by` or before.
  void FailIf(Patience patience, base::Instant begun_by, const absl::Status& why, Effects& effects);
  void FailAll(const absl::Status& why, Effects& effects);
  void RefuseImpatient(Effects& effects);
  void Unreachable(base::Instant sent, const absl::Status& why, base::Instant now,
                   Effects& effects);

  // Bids (lock_machine_bids.cc).
  void Pursue(base::Instant now);
  void AbandonPursuit(base::Instant now);
  Bid NextBid(base::Instant now, bool contended);
  void OnBid(const Send& send, const BidAnswer& answer, base::Instant now, Effects& effects);
  void OnLateBid(const Send& send, const BidAnswer& answer, base::Instant now, Effects& effects);
  void OnBidFailed(const Send& send, const Answer& answer, base::Instant now, Effects& effects);
  void OnQueued(const BidAnswer& answer, base::Instant now, Effects& effects);
  void OnMissed(GrantId grant);
  void PollSoon(GrantId grant, base::Instant now);

  // The server's word that it is ours (lock_machine_granted.cc).
  // What a grant is given for, and by which word of the server's.
  struct Basis {
    absl::Duration lease;
    base::Instant asked;  // when the attempt was sent that it answers
    bool claim = false;   // by a message, for less than the lease
  };
  void Granted(const NewGrant& news, const Basis& basis, base::Instant now, Effects& effects);
  void ConfirmFirst(base::Instant now, Effects& effects);
  void LetThrough(base::Instant now, Effects& effects);

  // The grant (lock_machine_grant.cc).
  void Prolong(base::Instant sent, absl::Duration lease, base::Instant now);
  void RenewNow(base::Instant now);
  void OnRenewal(const Send& send, const Answer& answer, base::Instant now, Effects& effects);
  void OnHeld(const Send& send, const Answer& answer, bool extension, base::Instant now,
              Effects& effects);
  // Whether anybody is told of renewals: a confirmation is part of the acquisition.
  bool TellsOfRenewals() const { return held() && !grant_->terms.manual && !grant_->claimed; }
  void ReleaseGrant(uint64_t hold, FencingToken token, base::Instant now);
  void GiveBack(Debts::Debt debt, base::Instant now);
  void Lose(const std::string& reason, base::Instant release_at, base::Instant now,
            Effects& effects);

  // Scripts (lock_machine_scripts.cc).
  Send WithBid(Debts::Due due, base::Instant now);
  absl::Duration Early(absl::Duration early) const;
  void AskNow(base::Instant now);

  void CountEnd(Waiter::State state);  // lock_machine_tally.cc

  const Config config_;
  WaiterQueue queue_;
  std::optional<Pursuit> pursuit_;
  std::optional<Grant> grant_;
  Debts debts_;
  Looks looks_;
  Reachability server_;
  Told told_;  // of a latch, the most
  // Of the latest grant of which this client was not told: its id, until the subscription that
  // failed is made anew.
  GrantId missed_ = 0;
  base::Instant missed_since_;  // when its wait began
  uint32_t misses_ = 0;         // how many in a row
  // How long this client mostly waits for the lock, if it has waited: a wait that is much longer
  // may mean that the server is not what it was, and asks before the heartbeat is due.
  absl::Duration usual_wait_;
  // A grant that ran out is told to be lost somewhat before its deadline, so that whoever works
  // under it can stop: until that deadline, this one, nobody is let in by us.
  base::Instant embargo_;
  std::vector<LostStd> lost_std_;
  Tally tally_;
  base::Instant taken_at_;  // when the lock was last known to be somebody's, or this client's
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_MACHINE_LOCK_MACHINE_H_
