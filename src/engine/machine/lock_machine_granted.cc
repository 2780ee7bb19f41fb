// The server's word that the lock is ours: by the answer to a bid, or by message.
#include <algorithm>
#include <limits>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

bool LockMachine::OnGrant(const NewGrant& news, base::Instant now, Effects& effects) {
  if (news.grant == missed_) missed_ = 0;  // it was only slower than the server's answer
  if (!pursuit_ || pursuit_->bid.grant != news.grant) {
    return (grant_ && grant_->id == news.grant) || debts_.Has(news.grant);
  }
  misses_ = 0;
  server_.Heard(now);
  if (!config_.sharing.holds) {
    LetThrough(now, effects);
    return true;
  }
  // An attempt that is too old to be remembered: its deadline has passed, whatever the clock says.
  base::Instant asked = base::Instant::FromNanos(std::numeric_limits<int64_t>::min());
  for (const Attempt& attempt : pursuit_->attempts) {
    if (attempt.number == news.attempt) asked = attempt.sent;
  }
  const Terms& terms = pursuit_->bid.terms;
  const bool claim = news.claim < terms.lease;
  const base::Instant deadline = asked + (news.claim - DriftMargin(news.claim));
  if (deadline < now + Scaled(news.claim, 1, 4) || (claim && (terms.manual || terms.whole))) {
    ConfirmFirst(now, effects);
  } else {
    Granted(news, {.lease = news.claim, .asked = asked, .claim = claim}, now, effects);
  }
  return true;
}

// There is nothing to hold: all who wait may go on.
void LockMachine::LetThrough(base::Instant now, Effects& effects) {
  pursuit_.reset();
  while (Waiter* const waiter = queue_.head()) {
    queue_.Remove(*waiter);
    waiter->state = Waiter::State::kGranted;
    ++tally_.opened;
    if (config_.counts) tally_.waited.Add(waiter->began, now);
    if (Rouse(*waiter)) effects.through.push_back(waiter);
  }
}

void LockMachine::Granted(const NewGrant& news, const Basis& basis, base::Instant now,
                          Effects& effects) {
  if (!config_.sharing.holds) return LetThrough(now, effects);
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
  grant_.emplace(Grant{
      .id = news.grant,
      .attempt = news.attempt,
      .terms = terms,
      .claimed = basis.claim,
      .deadline = deadline,
      .lost_at = deadline - ExpiryLead(terms.lease),
      .server_expires = now + basis.lease,
      .asked = basis.asked,
      .others = news.others > 0,
      // The attempt that the grant echoes was executed, whenever its own answer comes.
      .in_flight = pursuit.in_flight && news.attempt < pursuit.bid.attempt,
      .uncertain = pursuit.uncertain,
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
  pursuit_.reset();
  if (config_.sharing.passes_on) looks_.Clear();
  ++tally_.granted;
  GiveToHead(now, effects);
  RefuseImpatient(effects);
}

// A grant that is not enough to work under: the server is asked for the lease before a thread gets
// it. It answers with the token of the present grant, which need not be this one. The head's thread
// asks, if it is there.
void LockMachine::ConfirmFirst(base::Instant now, Effects& effects) {
  pursuit_->claimed = true;
  pursuit_->queued = true;
  AskNow(now);
  if (Waiter* const head = queue_.head()) Wake(*head, effects);
}

}  // namespace redlatch::engine
