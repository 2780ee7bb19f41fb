// Scripts: which is due, and what becomes of their answers.
#include <algorithm>
#include <utility>
#include <variant>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

std::optional<Send> LockMachine::NextSend(base::Instant now, absl::Duration early) {
  if (std::optional<Send> send = Bidder::NextSend(now, early)) return send;
  if (resting() && grant_->rests_until <= now) {
    EndRest(now);
    return NextSend(now, early);
  }
  if (!grant_ || grant_->renewing || grant_->deadline <= now ||
      now + Early(early) < grant_->renew_due) {
    return std::nullopt;
  }
  if (!held() && !resting()) {  // nobody has come for it since: it is not kept from others longer
    ReleaseGrant(0, FencingToken(), now);
    Pursue(now);
    return NextSend(now, early);
  }
  grant_->renewing = true;
  grant_->again = false;
  if (grant_->terms.manual) {
    return Send{.what = ToRenew(), .grant = grant_->id, .lease = kLookOnly, .sent = now};
  }
  // In the client's turn, a lock that threads use only for moments stays a claim: see Rest().
  const bool brief = grant_->claimed && now < grant_->turn_ends &&
                     (resting() || now - grant_->holds.back().began < ConfirmAfter(grant_->claim));
  return Renewal(brief ? grant_->claim : grant_->terms.lease, now);
}

std::optional<Send> LockMachine::NextSendOf(uint64_t hold, base::Instant now) {
  auto due = debts_.NextOf(hold, now);
  if (!due) return std::nullopt;
  return WithBid(*std::move(due), now);
}

std::optional<Send> LockMachine::NextRelease(base::Instant now) {
  if (pursuit_) return std::nullopt;
  auto due = debts_.NextUnasked(now);
  if (!due) return std::nullopt;
  return std::move(due->send);
}

bool LockMachine::Wants(const Send& send) const {
  if (std::holds_alternative<ToRenew>(send.what)) return Has(send.grant);
  return Bidder::Wants(send);
}

void LockMachine::OnAnswer(const Send& send, const Answer& answer, base::Instant now,
                           Effects& effects) {
  Expire(now, effects);
  if (!std::holds_alternative<ToRenew>(send.what)) {
    return Bidder::OnAnswer(send, answer, now, effects);
  }
  if (answer.failed() == nullptr) server_.Heard(now);
  OnRenewal(send, answer, now, effects);
  if (answer.deaf) OnDeaf(now);
}

// How much sooner than due a renewal may be; a confirmation is spared if the grant ends before it.
absl::Duration LockMachine::Early(absl::Duration early) const {
  return grant_->claimed ? absl::ZeroDuration()
                         : std::min(early, Scaled(grant_->terms.lease, 1, 32));
}

void LockMachine::LookAfter(absl::Duration look, base::Instant now, absl::Duration later) {
  // The current owner proves what was before; an Owner does not, because it may have other holds.
  if (grant_ && config_.sharing.passes_on && !config_.explicit_owner) return;
  Bidder::LookAfter(look, now, later);
}

void LockMachine::OnReconnected(base::Instant now) {
  if (grant_) RenewNow(now);
  Bidder::OnReconnected(now);
}

base::Instant LockMachine::next_send() const {
  base::Instant next = Bidder::next_send();
  if (resting()) next = std::min(next, grant_->rests_until);
  const bool renews = grant_ && !grant_->renewing && grant_->renew_due < next_expiry();
  return renews ? std::min(next, grant_->renew_due) : next;
}

base::Instant LockMachine::next_expiry() const {
  return grant_ ? grant_->lost_at : base::Instant::Infinite();
}

uint64_t LockMachine::releasing() const {
  const uint64_t holds = grant_ && !held() && !resting() ? 1 : 0;
  return holds + debts_.releasing();
}

void LockMachine::AddStateTo(LockStats& stats) const {
  Bidder::AddStateTo(stats);
  stats.releasing += releasing();
  stats.released -= releasing();
  stats.held += grant_ ? grant_->holds.size() : 0;
  if (config_.sharing.counts) stats.permits += permits();
}

}  // namespace redlatch::engine
