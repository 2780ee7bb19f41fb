#ifndef REDLATCH_SRC_LOCK_STATE_LOCK_STATE_H_
#define REDLATCH_SRC_LOCK_STATE_LOCK_STATE_H_

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
#include "src/lock/state/bidder.h"
#include "src/lock/state/effects.h"
#include "src/lock/state/grant.h"
#include "src/lock/state/hold_ref.h"
#include "src/lock/state/request.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// The decisions of one client about one lock: to what a Bidder is, it adds what the client has.
//
//   remote state      means                                       leaves it by
//   nothing, pursuit  see Bidder                                  a grant
//   grant, claimed    a message named us the owner for a claim    its confirmation
//   grant             the server named us the owner               Release, loss
//
// Within a grant one hold follows another while the local window is open, or the client's turn
// lasts. Between two it is free for whoever comes first, while the head of the queue, which has
// been poked, is on its way. Where nobody waits here it rests, or goes back to the server.
//
// Not thread-safe.
class LockState final : public Bidder {
 public:
  explicit LockState(const Config& config) : Bidder(config) {}

  // ---- What threads do.

  bool MakeRoomForWaiter() noexcept override;
  // Takes once more what the thread has already; nothing, if it has nothing that it may reenter. A
  // manual hold that is entered without a lease (`manual` is false) is renewed from then on.
  std::optional<HoldRef> Reenter(uint64_t thread, Face face, bool manual, base::Instant now);
  // Ends what Reenter() began; false where it is the last level, or none.
  bool ReleaseInner(uint64_t thread, Face face);

  // Takes what rests, for a thread that wants no more than it is, and leaves it again, to rest.
  // False: the general way is to be gone. Cheap.
  bool TakeCachedNow(uint64_t thread, const std::shared_ptr<const LockOptions>& options,
                     base::Instant now);
  bool LeaveCachedNow(uint64_t thread, base::Instant now,
                      std::shared_ptr<const LockOptions>& ended);

  // Of a machine that shares grants the waiter joins the present one where the server is known to
  // let readers in, or asks whether it is.
  void Acquire(Waiter& waiter, base::Instant now, Effects& effects) override;
  bool KnowsWhy(const Waiter& waiter) const override;
  void OnWoken(Waiter& waiter, base::Instant now, Effects& effects) override;

  // Ends one level of a hold. A repeated call for one that is under way asks the server again.
  // What is under way, settled or not, is kept until Outcome() or Forget().
  // `token`: the hold's, for the observer if it was lost.
  Released Release(uint64_t hold, base::Instant now, Effects& effects, FencingToken token = {});
  Released Unlock(uint64_t thread, base::Instant now, Effects& effects);
  // What became of it since; forgets it unless it is under way.
  Released Outcome(uint64_t hold) { return cleanups_.Outcome(hold); }
  // Nobody will ask for the hold's outcome any more.
  void Forget(uint64_t hold) { cleanups_.Forget(hold); }
  // No lock object is left by which a thread could unlock: what was taken by lock() ends.
  void ReleaseStd(base::Instant now, Effects& effects);
  // The thread comes to read: a hold that it has goes back to the server and never passes on inside
  // the client, as the thread may read on.
  HoldRef Pin(uint64_t thread);
  // A script that gives a manual hold a new lease; nothing where it is renewed, or gone.
  std::optional<Request> Extend(uint64_t hold, absl::Duration lease, base::Instant now);
  // The renewal that replicas must confirm, by `by`, before a hold that wants acks counts; nothing
  // if its grant has the acks, or is over.
  std::optional<Request> Confirm(uint64_t hold, base::Instant by, base::Instant now);

  // ---- Scripts.

  std::optional<Request> NextRequest(base::Instant now,
                                     absl::Duration early = absl::ZeroDuration()) override;
  // The release of that hold, where it is due: whatever else is, its own thread runs this.
  std::optional<Request> NextRequestOf(uint64_t hold, base::Instant now);
  // It is not sent now, but when a driver asks for it again, or before the next acquire request.
  void Postpone(uint64_t hold) { cleanups_.Postpone(hold); }
  std::optional<Request> NextRelease(base::Instant now) override;
  void OnResult(const Request& request, const Result& result, base::Instant now,
                Effects& effects) override;
  bool IsWanted(const Request& request) const override;

  // ---- What else happens.

  void OnForced(GrantId grant, base::Instant now) override;
  void OnRecall(GrantId grant, base::Instant now, bool tried = false) override;
  void OnUnsubscribed(base::Instant now) override;
  void OnTooManyCached(base::Instant now) override;
  // A thread used what it does not have, and was told so.
  void OnMisuse() { ++tally_.misused; }
  void CheckHandoverAfter(absl::Duration check_after, base::Instant now,
                          absl::Duration later = absl::ZeroDuration()) override;
  void OnReconnected(base::Instant now) override;
  void Expire(base::Instant now, Effects& effects) override;

  base::Instant next_request_at() const override;
  base::Instant next_expiry() const override;

  // ---- What is so.

  bool vacant() const override { return !grant_ && Bidder::vacant(); }
  // Nothing is held here or awaited, and what is owed is on its way.
  bool reusable() const { return !grant_ && queue_.empty() && !pending_ && cleanups_.fresh(); }
  GrantId grant_id() const override { return grant_ ? grant_->id : Bidder::grant_id(); }
  // It has something that it keeps, which others may ask for.
  bool recallable() const override { return grant_ && grant_->recallable; }
  base::Instant cached_until() const override {
    return grant_ ? grant_->cached_until : base::Instant();
  }
  // A thread has it, or may take it again, or is still to unlock what it lost.
  bool in_use() const { return held() || cached() || lost_std_ != nullptr; }
  absl::InlinedVector<uint64_t, 1> holds() const;  // the current ones
  bool Valid(uint64_t hold, base::Instant now) const override;
  base::Instant Deadline(uint64_t hold) const;  // Instant() where it is over
  // Of OfThread(); null where that is nothing.
  std::shared_ptr<HoldState> ViewOf(uint64_t thread);

  void AddStateTo(LockStats& stats) const override;
  uint64_t releasing() const;  // holds that their threads have released, and the server not yet
  // What the server knows them to have: of permits, those of all holds.
  uint32_t permits() const { return held() ? grant_->terms.permits : 0; }

  // The thread's token, where none was drawn for its hold so far.
  struct Drawn {
    FencingToken token;
    base::Instant not_before;
  };
  std::optional<Drawn> Draw(uint64_t thread, base::Instant now);

  // A thread's hold, or one by lock() that was lost and not yet unlocked (its depth is 0 then).
  HoldRef OfThread(uint64_t thread) const;

 private:
  struct LostStd {  // a hold by lock() that was lost: its unlock() is still to come
    uint64_t thread;
    uint64_t hold;
    FencingToken token;
    uint32_t depth;
    std::shared_ptr<HoldState> view;
  };

  bool joined() const { return config_.sharing.joins; }
  bool held() const { return grant_ && !grant_->holds.empty(); }
  bool cached() const { return grant_ && grant_->cached_until != base::Instant(); }

  // Between threads.
  bool CanPass(const Waiter& waiter, base::Instant now) const;
  Drawn NextToken();
  void GiveTo(Waiter& waiter, base::Instant now, Effects& effects);
  void GiveToHead(base::Instant now, Effects& effects);
  void Join(Waiter& waiter, base::Instant now, Effects& effects);
  void LetJoin(base::Instant now, Effects& effects);
  bool Enter(Waiter& waiter, base::Instant now, Effects& effects);
  void LetOwnerIn(base::Instant now, Effects& effects);
  void Settle(uint64_t ended, FencingToken token, absl::Duration keep, base::Instant now,
              Effects& effects);
  void OnGivenUp(base::Instant now, Effects& effects) override;
  base::Instant AskedAt(const Waiter& waiter) const override;

  // Rest.
  void OnComing(const Waiter& waiter, base::Instant now);
  bool MayCache() const;
  bool HasTokens() const { return grant_->next_token <= grant_->last_token; }
  bool Cache(absl::Duration keep, base::Instant now);
  bool TakeCached(Waiter& waiter, base::Instant now, Effects& effects);
  void GiveBackCached(base::Instant now);

  // Holds.
  const LocalHold* Find(uint64_t hold) const;
  LocalHold* Find(uint64_t hold) { return const_cast<LocalHold*>(std::as_const(*this).Find(hold)); }
  const LocalHold* FindOf(uint64_t thread) const;
  LocalHold* FindOf(uint64_t thread) {
    return const_cast<LocalHold*>(std::as_const(*this).FindOf(thread));
  }
  std::shared_ptr<HoldState> ViewOf(LocalHold& hold) const;
  Released ReleaseLevel(LocalHold& hold, Face face, base::Instant now, Effects& effects);
  void EndHold(const LocalHold& hold, base::Instant now, Effects& effects);

  // The server's word that it is ours.
  void OnGranted(const NewGrant& news, const Basis& basis, base::Instant now,
                 Effects& effects) override;
  void OnGrantMessage(const NewGrant& news, base::Instant asked, base::Instant now,
                      Effects& effects) override;
  bool OnLateResult(const Bade& bade, const Result& result, base::Instant now,
                    Effects& effects) override;
  bool Has(GrantId grant) const { return grant_ && grant_->id == grant; }
  bool satisfied() const override { return grant_.has_value(); }

  // The grant.
  void Prolong(base::Instant sent, absl::Duration lease, base::Instant now);
  void RenewNow(base::Instant now);
  Request Renewal(absl::Duration lease, base::Instant now) const;
  void OnRenewal(const Request& request, const Result& result, base::Instant now, Effects& effects);
  void OnHeld(const Request& request, const StillHeld& result, bool extension, base::Instant now,
              Effects& effects);
  // Whether anybody is told of renewals: a confirmation is part of the acquisition.
  bool TellsOfRenewals() const { return held() && !grant_->terms.manual && !grant_->claimed; }
  void ReleaseGrant(uint64_t hold, FencingToken token, base::Instant now);
  void AddCleanup(PendingCleanups::PendingCleanup cleanup, base::Instant now);
  void Lose(const std::string& reason, base::Instant release_at, base::Instant now,
            Effects& effects);

  absl::Duration Early(absl::Duration early) const;

  std::optional<Grant> grant_;
  uint64_t last_token_ = 0;                         // the first one of its latest grant
  std::unique_ptr<std::vector<LostStd>> lost_std_;  // mostly there are none: null
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_LOCK_STATE_H_
