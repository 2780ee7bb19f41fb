#ifndef REDLATCH_SRC_LOCK_STATE_BIDDER_H_
#define REDLATCH_SRC_LOCK_STATE_BIDDER_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/stats.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/lock/state/effects.h"
#include "src/lock/state/grant.h"
#include "src/lock/state/handover_check.h"
#include "src/lock/state/pending_cleanups.h"
#include "src/lock/state/reachability.h"
#include "src/lock/state/request.h"
#include "src/lock/state/sharing.h"
#include "src/lock/state/tally.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// The decisions of one client about something that its threads wait for at a server: what to ask
// for them and when, what the answers mean, how long each waits. What it means to get it is said by
// a LockMachine or a LatchMachine. Pure: no I/O, no clock, no thread. Events come in with the time
// at which they happen; what follows is in the Effects, in NextSend() and in the two timers.
//
//   remote state      means                                       leaves it by
//   nothing           nobody here waits                           a waiter
//   pursuit           a bid is being made, is queued, or must     a grant (reply or message),
//                     be repeated after a failure                 the last waiter's end
//   pursuit, claimed  a message named us the owner for a claim    the server's word
//                     too short to work under
//
// A script by which the lock was handed over by message is followed by a look, when the claim is
// over: if the new owner is frozen or deaf, that passes the lock on.
//
// Beside that there may be debts: grants to be released or bids to be cancelled at the server, each
// repeated until it is answered or the lease must be over.
//
// Not thread-safe.
class Bidder {
 public:
  struct Config {
    bool reentrant = false;
    // All holds of this machine belong to one explicit Owner: no thread may be given another's.
    bool explicit_owner = false;
    bool several = false;          // of several names: a release does not queue the client again
    Sharing sharing = kExclusive;  // `joins` implies `reentrant`
    bool counts = false;           // keeps a tally
    bool tells = false;            // somebody is told the token of each hold
    absl::Duration longest_heartbeat = absl::Seconds(10);
    absl::Duration unreachable_after = absl::Seconds(10);
    base::Numbers* numbers = nullptr;  // for grants and holds; the client's
  };

  virtual ~Bidder() = default;
  Bidder(const Bidder&) = delete;
  Bidder& operator=(const Bidder&) = delete;

  // ---- What threads do.

  // Before a hold ends, or a waiter comes: memory for what that may lead to. False: there is none.
  bool MakeRoom() noexcept { return cleanups_.MakeRoom(); }
  virtual bool MakeRoomForWaiter() noexcept { return MakeRoom(); }
  // The waiter is decided at once (its state says so), or queued.
  virtual void Acquire(Waiter& waiter, base::Instant now, Effects& effects) = 0;
  // Its time is over, or its stop token fired. Where it was decided meanwhile, that stands. `as`
  // kBusy becomes kFailed where nobody knows that the lock is taken: the server does not answer, or
  // has not answered since the waiter came.
  void GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects);
  // Whether it is known since the waiter came that the lock is taken, or cannot be reached: where
  // it is not, giving up now would be for no reason.
  virtual bool KnowsWhy(const Waiter& waiter) const;
  // When an endless waiter has waited long enough for a server that does not answer; Infinite()
  // where that is not so. `sent`: when its thread has sent what is not answered yet.
  base::Instant GivesUpAt(const Waiter& waiter, base::Instant sent) const;
  // Whether the server is silent, and somebody else waits who is not refused at once: an attempt
  // that ends with the call of this waiter would tell him nothing of a server that is only slow.
  bool IsInTheWay(const Waiter& waiter) const;
  // A thread that was woken undecided looks whether the lock is free.
  virtual void OnWoken(Waiter& waiter, base::Instant now, Effects& effects);

  // A waiter whose thread is about to sleep, and one whose thread runs again.
  static void Park(Waiter& waiter) { waiter.parked = true; }
  static void Unpark(Waiter& waiter) { waiter.parked = waiter.wake_pending = false; }
  // Whether its thread is to be woken: it sleeps, and nobody does that already.
  static bool NeedsWake(Waiter& waiter) {
    return waiter.parked && !std::exchange(waiter.wake_pending, true);
  }

  // The lock object by which they wait is gone: they end as kStopped.
  void StopAll(const void* object, base::Instant now, Effects& effects);

  // ---- Scripts.

  // The next script to run now; whoever fetches it runs it and brings the answer. `early` is how
  // much sooner than due a renewal may be, to travel with others.
  virtual std::optional<Request> NextRequest(base::Instant now,
                                             absl::Duration early = absl::ZeroDuration());
  virtual void OnResult(const Request& request, const Result& result, base::Instant now,
                        Effects& effects);
  // False: what this script is for is over, so that it need not be sent again.
  virtual bool IsWanted(const Request& request) const;

  // ---- What else happens.

  // A message. Anyone who may publish can send one, so it is believed only once, and only with the
  // secret id of the bid and an attempt that was made. Otherwise the server is asked.
  void OnGrant(const NewGrant& news, base::Instant now, Effects& effects);
  // A bid that nobody here wants any more was granted or queued: it is cancelled.
  void OnUnwanted(GrantId grant, absl::Duration lease, uint32_t block, base::Instant now);
  // What the grant has, or the bid waits for, was changed by somebody else.
  virtual void OnForced(GrantId grant, base::Instant now);
  // It may be this bid's turn, which only asking again can tell.
  void OnAskAgain(GrantId grant, Effects& effects);
  // Another client wants the lock of that grant. `tried`: it is not queued.
  virtual void OnRecall(GrantId, base::Instant, bool /*tried*/ = false) {}
  // A release of which nobody asks for the outcome, where it is due and nothing follows behind it.
  virtual std::optional<Request> NextRelease(base::Instant) { return std::nullopt; }
  // There is a subscription, by which others can ask for what this client keeps.
  void OnSubscribed() { subscribed_ = true; }
  // No message reaches this client.
  virtual void OnUnsubscribed(base::Instant) {}
  // The client has too many of what no thread has: this one goes back.
  virtual void OnTooManyCached(base::Instant) {}
  // A call ended so before it could become a waiter.
  void OnRefused(Waiter::State as) { tally_.CountEnd(as); }
  // A script handed the lock over by message, or, with a look of a millisecond, is to go on at
  // once; `later` is then the look after what it handed over itself.
  virtual void CheckHandoverAfter(absl::Duration check_after, base::Instant now,
                                  absl::Duration later = absl::ZeroDuration());
  // Connections are new: whatever was under way may be lost.
  virtual void OnReconnected(base::Instant now);
  // Loses a hold whose local deadline has come, or is about to.
  virtual void Expire(base::Instant, Effects&) {}

  // When NextSend() has something next, unless something happens or the grant expires before.
  virtual base::Instant next_request_at() const;
  virtual base::Instant next_expiry() const { return base::Instant::Infinite(); }

  // ---- What is so.

  bool idle() const { return vacant() && handover_check_.none(); }
  // Nothing is held here, awaited or owed: others may use it.
  virtual bool vacant() const { return queue_.empty() && !pending_ && cleanups_.empty(); }
  // What it bids for, or has; 0: neither.
  virtual GrantId grant_id() const { return pending_ ? pending_->acquire.grant : 0; }
  virtual bool recallable() const { return false; }
  // Until when it keeps what no thread has; Instant(): it has nothing like that.
  virtual base::Instant cached_until() const { return {}; }
  // Of a hold that a waiter was given.
  virtual bool Valid(uint64_t hold, base::Instant now) const = 0;

  // What was counted.
  void AddCountsTo(LockStats& stats) const { tally_.AddTo(stats, cleanups_.failed()); }
  // What is there at this moment.
  virtual void AddStateTo(LockStats& stats) const;
  uint64_t waiting() const;  // waiters in the queue

 protected:
  explicit Bidder(const Config& config) : config_(config) {}

  // A bid, and when it was sent.
  struct Bade {
    const AcquireRequest& acquire;
    base::Instant sent;
  };
  // What a grant is given for, and by which word of the server's.
  struct Basis {
    absl::Duration lease;
    base::Instant asked;  // when the attempt was sent that it answers
    bool claim = false;   // for less than the lease
  };

  // Of a latch: how many have counted it down.
  virtual void OnCounts(const LatchCounts&) {}
  // The pursued grant is there: by the answer to the bid, and by message.
  virtual void OnGranted(const NewGrant& news, const Basis& basis, base::Instant now,
                         Effects& effects) = 0;
  virtual void OnGrantMessage(const NewGrant& news, base::Instant asked, base::Instant now,
                              Effects& effects) = 0;
  // The answer to a bid that nobody pursues any more. True: there is no need to cancel it.
  virtual bool OnLateResult(const Bade& bade, const Result& result, base::Instant now,
                            Effects& effects) = 0;
  // A waiter has given up: what is there, or is pursued, may be nobody's.
  virtual void OnGivenUp(base::Instant now, Effects&) { UpdatePending(now); }
  // Whether there is nothing to be pursued, whoever waits.
  virtual bool satisfied() const { return false; }
  // Since when the server owes this waiter an answer; Infinite(): it does not.
  virtual base::Instant AskedAt(const Waiter& waiter) const;

  uint64_t NextHold() { return config_.numbers->Next(); }
  GrantId NextGrant() { return config_.numbers->NextSecret(); }
  void Enqueue(Waiter& waiter, base::Instant now);
  void Decide(Waiter& waiter, Waiter::State state, Effects& effects);
  static void Wake(Waiter& waiter, Effects& effects);
  // Those whose call began at `begun_by` or before.
  void FailIf(Patience patience, base::Instant begun_by, const absl::Status& why, Effects& effects);
  void RefuseImpatient(Effects& effects);

  // Brings the pursuit in line with the queue.
  void UpdatePending(base::Instant now);
  // The pursuit's next attempt. `contended`: several threads of this client are after the lock.
  AcquireRequest NextAcquire(base::Instant now, bool contended);
  // The bid of those who wait here travels with the first try of a release.
  Request WithAcquire(PendingCleanups::Due due, base::Instant now);
  void AskNow(base::Instant now);
  // What is left of a claim is not enough to work under.
  void ConfirmFirst(base::Instant now, Effects& effects);

  const Config config_;
  WaiterQueue queue_;
  std::optional<PendingAcquire> pending_;
  PendingCleanups cleanups_;
  HandoverCheck handover_check_;
  Reachability server_;
  Tally tally_;
  // How long this client mostly waits for the lock, if it has waited: a wait that is much longer
  // may mean that the server is not what it was, and asks before the heartbeat is due.
  absl::Duration usual_wait_;
  // A grant that ran out is told to be lost somewhat before its deadline, so that whoever works
  // under it can stop: until that deadline, this one, nobody is let in by us.
  base::Instant blocked_until_;
  base::Instant handed_at_;  // when this client last released it though others waited
  base::Instant taken_at_;   // when the lock was last known to be somebody's, or this client's

 private:
  // Patience.
  void FailAll(const absl::Status& why, Effects& effects);
  void Unreachable(base::Instant sent, const absl::Status& why, base::Instant now,
                   Effects& effects);

  // Answers.
  void OnAcquireResult(const Bade& bade, const Result& result, base::Instant now, Effects& effects);
  void OnPendingResult(const Bade& bade, const AcquireResult& result, base::Instant now,
                       Effects& effects);
  void OnAcquireGranted(const Bade& bade, const AcquireGranted& result, base::Instant now,
                        Effects& effects);
  void OnQueued(const AcquireQueued& result, base::Instant now, Effects& effects);
  void OnBusy(base::Instant now, Effects& effects);
  void OnAcquireFailed(const Bade& bade, const Failed& failed, base::Instant now, Effects& effects);
  void OnMissed(GrantId grant);
  void PollSoon(GrantId grant, base::Instant now);

  void CancelPending(base::Instant now);
  std::optional<base::Instant> TakeMissed();
  bool IsPending(GrantId grant) const { return pending_ && pending_->acquire.grant == grant; }

  // Of the latest grant of which this client was not told: its id, until the subscription that
  // failed is made anew.
  GrantId missed_ = 0;
  base::Instant missed_since_;  // when its wait began
  bool misses_ = false;         // no message has reached it since

 protected:
  // Of a LockMachine, here because there is room.
  bool subscribed_ : 1 = false;     // when a client asks for what this one keeps
  bool may_cache_ : 1 = false;      // there is a lock object by which a thread may come again
  bool comes_again_ : 1 = false;    // the last one did soon
  bool asks_at_once_ : 1 = false;   // the last bid followed upon a release to others
  bool released_once_ : 1 = false;  // there was a release: room for the next one is kept
  // So many acquisitions between two calls of other clients make a read worth keeping.
  static constexpr unsigned kOfUse = 2;
  // Of what readers share: acquisitions since another client last called it back, up to those, and
  // whether there were as many between the last two calls.
  unsigned served_ : 2 = kOfUse;
  bool serves_ : 1 = true;

 public:
  bool recallable_noted : 1 =
      false;             // the runtime's: it has told the server group that this one attends()
  uint32_t tried_s = 0;  // the second in which a try last found that this client keeps it

 private:
  uint32_t called_s_ = 0;  // the second in which a try last called whoever keeps it
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_BIDDER_H_
