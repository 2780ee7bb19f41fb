// The server's word that the lock is ours: by the answer to a bid, or by message.
#include <algorithm>
#include <variant>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

void LockMachine::OnGrantMessage(const NewGrant& news, base::Instant asked, base::Instant now,
                                 Effects& effects) {
  const Terms& terms = pursuit_->bid.terms;
  const absl::Duration claim = std::min(news.claim, terms.lease);
  const base::Instant deadline = asked + (claim - DriftMargin(claim));
  const bool late = deadline < now + Scaled(claim, 1, 4);
  const bool odd = config_.sharing.passes_on && news.token < std::max(last_token_, uint64_t{1});
  if (late || odd || terms.manual || terms.whole || terms.acks.any()) {
    return ConfirmFirst(now, effects);
  }
  OnGranted(news, {.lease = claim, .asked = asked, .claim = true}, now, effects);
}

void LockMachine::OnGranted(const NewGrant& news, const Basis& basis, base::Instant now,
                            Effects& effects) {
  Pursuit& pursuit = *pursuit_;
  const base::Instant deadline = basis.asked + (basis.lease - DriftMargin(basis.lease));
  if (deadline <= now) {  // too late to be used; asking again gives the grant its lease anew
    pursuit.queued = true;
    pursuit.due =
        now + Spread(kFirstBackoff / 10, kLongestBackoff, pursuit.failures++, pursuit.bid.grant);
    return;
  }
  const Terms terms = pursuit.bid.terms;
  const uint64_t last_token = news.token + pursuit.bid.block - 1;
  last_token_ = news.token;
  grant_.emplace(Grant{
      .id = news.grant,
      .terms = terms,
      .attempt = news.attempt,
      .claimed = basis.claim,
      .others = news.others > 0,
      .queued = pursuit.queued,
      .tried = SecondOf(now) - tried_s <= kNotKeptSeconds,
      .extends = terms.manual,
      // The attempt that the grant echoes was executed, whenever its own answer comes.
      .in_flight = pursuit.in_flight && news.attempt < pursuit.bid.attempt,
      .uncertain = pursuit.uncertain,
      .claim = basis.claim ? basis.lease : absl::ZeroDuration(),
      .deadline = deadline,
      .lost_at = deadline - ExpiryLead(terms.lease),
      .server_expires = now + basis.lease,
      .asked = basis.asked,
      .turn_ends = (pursuit.queued || news.others > 0) && config_.sharing.passes_on &&
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
  if (pursuit.queued) {
    usual_wait_ = std::max(Scaled(usual_wait_, 7, 8), now - pursuit.began);
  }
  if (pursuit.wanted) OnWanted(news.grant, now);
  if (pursuit.forced) {
    grant_->forced = true;
    RenewNow(now);
  }
  pursuit_.reset();
  if (config_.sharing.passes_on && !config_.explicit_owner) looks_.Clear();
  ++tally_.granted;
  GiveToHead(now, effects);
  RefuseImpatient(effects);
}

// The answer to a bid that a message has granted meanwhile.
bool LockMachine::OnLateAnswer(const Bade& bade, const Answer& answer, base::Instant now,
                               Effects& effects) {
  if (!Has(bade.bid.grant)) return false;
  Grant& grant = *grant_;
  grant.in_flight = false;
  if (const Failed* const failed = answer.failed()) {
    grant.uncertain |= failed->may_have_executed;
  } else if (const auto* const granted = std::get_if<BidGranted>(&answer.bid())) {
    if (!grant.terms.acks.any()) Prolong(bade.sent, granted->lease, now);
    grant.asked = bade.sent;
    grant.others = granted->others > 0;
    if (grant.claimed && granted->lease >= grant.terms.lease) {
      grant.claimed = false;
      grant.renew_due = RenewDue(grant.terms, bade.sent);
    }
  } else if (std::holds_alternative<BidQueued>(answer.bid()) && bade.bid.attempt > grant.attempt) {
    // Queued after a grant that echoes an earlier attempt: the grant was over by then.
    // The release takes it from the queue, or ends a hold whose tokens are not known here.
    grant.uncertain = true;
    Lose("the server no longer had it: its lease had expired there, or its release was forced", now,
         now, effects);
  }
  return true;
}

}  // namespace redlatch::engine
