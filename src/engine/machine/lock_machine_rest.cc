// A grant that no thread has, and that stays with the client.
#include <algorithm>
#include <memory>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

// Threads that are away for no more than this part of a turn are worth waiting for.
constexpr int kPartsOfATurn = 16;
// With fewer tokens than that, a grant that stays is renewed, and so gets more.
constexpr uint64_t kFewTokens = 2048;

}  // namespace

// Threads that came back soon are expected to do so again.
void LockMachine::OnComing(const Waiter& waiter, base::Instant now) {
  may_rest_ = waiter.object != nullptr;
  const absl::Duration turn = waiter.options->turn;
  if (turn > absl::ZeroDuration() && taken_at_ != base::Instant()) {
    comes_again_ = now - taken_at_ <= Scaled(turn, 1, kPartsOfATurn);
  }
}

// Whether no other client has asked for it: then it stays as long as it is renewed. A lock that
// came by message, from a client that may want it back, stays once the server has confirmed it.
// Reads that writers call back again and again stay if they are of use in between.
bool LockMachine::Stays() const {
  return MayStay(grant_->id) && hears_ && !grant_->others && !grant_->wanted && !grant_->tried &&
         !grant_->forced && (joined() ? serves_ || served_ >= kOfUse : !grant_->claimed);
}

// No thread waits here. False: it goes back to the server. In a turn it stays only as a claim,
// which the server soon frees if this process ends; with `keep`, the user accepts a whole lease.
bool LockMachine::Rest(absl::Duration keep, base::Instant now) {
  if (!joined()) taken_at_ = now;  // readers keep no reader out
  Grant& grant = *grant_;
  const bool stays = Stays();
  const bool brief = grant.claimed || MayStay(grant.id) || grant.terms.lease <= kShortestClaim;
  const bool in_turn = comes_again_ && now < grant.turn_ends && HasTokens() && brief;
  if (!may_rest_ || (!stays && !in_turn) || grant.deadline <= now || grant.pinned ||
      grant.terms.manual || grant.terms.acks.any() || config_.explicit_owner ||
      config_.sharing.counts) {
    return false;
  }
  grant.rests_until = stays ? now + keep : grant.turn_ends;
  grant.attends |= stays;
  const bool draws = config_.sharing.passes_on && grant.next_token > grant.first_token;
  if (stays && draws && grant.last_token < grant.next_token + kFewTokens && !grant.renewing &&
      grant.failures == 0) {
    RenewNow(now);
  }
  return true;
}

// True: there is nothing left to be asked of the server for it.
bool LockMachine::TakeRested(Waiter& waiter, base::Instant now, Effects& effects) {
  const bool joins = joined() && Stays() && waiter.terms == grant_->terms;
  if (joins || CanPass(waiter, now)) {
    GiveTo(waiter, now, effects);
    return true;
  }
  if (!joined() && Stays() && !HasTokens() && waiter.terms == grant_->terms &&
      grant_->failures == 0) {
    waiter.since = now;
    queue_.Append(waiter);
    if (!grant_->renewing) RenewNow(now);
    return true;
  }
  EndRest(now);
  return false;
}

void LockMachine::EndRest(base::Instant now) {
  ReleaseGrant(0, FencingToken(), now);
  Pursue(now);
}

void LockMachine::OnWanted(GrantId grant, base::Instant now, bool tried) {
  if (tried) tried_s = SecondOf(now);
  if (pursuit_ && pursuit_->bid.grant == grant) {  // heard before its answer
    pursuit_->wanted = pursuit_->exposed = true;
  }
  if (!Has(grant) || grant_->wanted) return;
  grant_->wanted = true;
  if (joined()) {
    serves_ = served_ >= kOfUse;
    served_ = 0;
  } else {
    grant_->asked = now;  // a last window for the threads that are here
  }
  if (!resting()) return;
  if (grant_->turn_ends <= now) return EndRest(now);
  grant_->rests_until = grant_->turn_ends;
}

void LockMachine::OnDeaf(base::Instant now) {
  hears_ = false;
  if (!resting()) return;
  if (grant_->turn_ends <= now) return EndRest(now);
  grant_->rests_until = std::min(grant_->rests_until, grant_->turn_ends);
}

void LockMachine::OnCrowded(base::Instant now) {
  if (resting()) EndRest(now);
}

bool LockMachine::Retake(uint64_t thread, const std::shared_ptr<const LockOptions>& options,
                         base::Instant now) {
  if (!grant_ || !queue_.empty() || grant_->lost_at <= now || config_.tells) return false;
  // Readers come beside others that read.
  if (!resting() && (!joined() || !held() || FindOf(thread) != nullptr)) return false;
  Grant& grant = *grant_;
  const Terms& terms = grant.terms;
  if (!Stays() || (!joined() && !HasTokens()) || terms.lease != options->lease || terms.manual ||
      terms.whole || terms.args || options->keep <= absl::ZeroDuration() ||
      options->keep > terms.lease || options->replica_acks != 0 || options->fsync) {
    return false;
  }
  if (resting()) grant.at_risk = false;
  grant.rests_until = base::Instant();
  if (joined() && served_ < kOfUse) ++served_;
  grant.holds.emplace_back(
      ThreadHold{.id = NextHold(),
                 .thread = thread,
                 .depth = 1,
                 .std_depth = 1,
                 .token = joined() ? FencingToken(grant.first_token) : FencingToken(),
                 .began = now,
                 .options = options});
  if (config_.counts) tally_.waited.Add(now, now);
  return true;
}

bool LockMachine::Leave(uint64_t thread, base::Instant now,
                        std::shared_ptr<const LockOptions>& ended) {
  if (!held() || !queue_.empty() || grant_->lost_at <= now) return false;
  ThreadHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->depth != 1 || mine->std_depth != 1 || mine->view != nullptr ||
      config_.tells || !Stays()) {
    return false;
  }
  const bool last = grant_->holds.size() == 1;
  if (last && !Rest(mine->options->keep, now)) return false;
  if (config_.counts) tally_.held_for.Add(mine->began, now);
  ended = std::move(mine->options);
  grant_->holds.erase(grant_->holds.begin() + (mine - grant_->holds.data()));
  return true;
}

std::optional<LockMachine::Drawn> LockMachine::Draw(uint64_t thread, base::Instant now) {
  ThreadHold* const mine = FindOf(thread);
  if (mine == nullptr || mine->token != FencingToken() || grant_->deadline <= now ||
      !config_.sharing.passes_on || !HasTokens()) {
    return std::nullopt;
  }
  const Drawn drawn = NextToken();
  mine->token = drawn.token;
  return drawn;
}

}  // namespace redlatch::engine
