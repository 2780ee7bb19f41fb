// What the client has at the server: kept, given back, or lost.
#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

// A renewal never shortens a lease: with this one, it only tells whether the hold is there.
constexpr absl::Duration kLookOnly = absl::Milliseconds(1);
constexpr char kForcedReason[] = "someone forced its release, as redlatch break does";
constexpr char kGoneReason[] =
    "the server no longer has it: its lease expired there, the server lost its data, or something "
    "overwrote it";

}  // namespace

void LockMachine::ReleaseGrant(uint64_t hold, FencingToken token, base::Instant now) {
  const Grant& grant = *grant_;
  const absl::Duration lease = grant.terms.lease;
  const bool unanswered = grant.in_flight || grant.uncertain;
  // What is on its way may still be executed: a renewal, or a bid, which brings the hold back.
  base::Instant expires = grant.server_expires;
  if (grant.renewing) expires = std::max(expires, now + lease);
  if (unanswered) {
    expires = std::max(expires, now + LongestGhost(lease, config_.longest_heartbeat));
  }
  debts_.push_back({
      .operation = Operation::kRelease,
      .grant = grant.id,
      .hold = hold,
      .lease = lease,
      .tombstone = unanswered,
      .last_used = grant.next_token - 1,
      .last_reserved = grant.last_token,
      .deadline = grant.deadline,
      .expires = expires,
      .due = now,
      .releases = true,
      .outcome = {.kind = Released::Kind::kUnderWay,
                  .hold = hold,
                  .token = hold != 0 ? token : FencingToken(grant.next_token - 1)},
  });
  grant_.reset();
  if (!joined()) taken_at_ = now;  // readers keep no reader out
}

// It is released in any case: where the server says that the hold is gone, a bid that was on its
// way may have brought it back since.
void LockMachine::Lose(const std::string& reason, base::Instant now, Effects& effects) {
  auto holds = std::move(grant_->holds);
  ReleaseGrant(0, FencingToken(), now);
  debts_.back().releases = false;
  for (ThreadHold& hold : holds) {
    ++tally_.lost;
    if (config_.counts) tally_.held_for.Add(hold.began, now);
    // current() shows it until unlock().
    if (hold.std_depth > 0 && hold.view == nullptr) {
      hold.view = std::make_shared<HoldView>(base::Instant());
    }
    if (hold.view != nullptr) hold.view->Lose();
    if (hold.std_depth > 0) {
      lost_std_.push_back({.thread = hold.thread,
                           .hold = hold.id,
                           .token = hold.token,
                           .depth = hold.std_depth,
                           .view = hold.view});
    }
    effects.losses.push_back({.hold = std::move(hold), .reason = reason});
  }
  Pursue(now);
}

void LockMachine::Expire(base::Instant now, Effects& effects) {
  if (now < next_expiry()) return;
  std::string reason =
      grant_->claimed ? "its hand-over was not confirmed in time" : "its lease expired";
  if (!grant_->last_failure.ok()) {
    reason += ", because it could not be renewed: " + std::string(grant_->last_failure.message());
  } else if (!grant_->terms.manual) {
    reason += ": this process was not running in time, or the server was silent";
  }
  if (held()) embargo_ = grant_->deadline;
  Lose(reason, now, effects);
  debts_.back().due = std::max(now, embargo_);
}

std::optional<Send> LockMachine::NextSend(base::Instant now, absl::Duration early) {
  for (Debt& debt : debts_) {
    if (debt.settled || debt.in_flight || now < debt.due) continue;
    if (debt.tried_once && IsOver(debt, now)) {
      Settled(debt, Released::Kind::kLost);
      return NextSend(now, early);
    }
    return SendDebt(debt, now);
  }
  if (pursuit_ && !pursuit_->in_flight && std::max(pursuit_->due, embargo_) <= now) {
    const Bid bid = NextBid(now, queue_.has_several());
    return Send{.operation = Operation::kAcquire,
                .grant = bid.grant,
                .sent = now,
                .lease = bid.terms.lease,
                .bid = bid,
                .anew = std::exchange(missed_, 0) != 0,
                .missed_since = missed_since_};
  }
  if (std::optional<Send> look = NextLook(now)) return look;
  if (grant_ && !grant_->renewing && now < grant_->deadline &&
      grant_->renew_due <= now + Early(early)) {
    if (!held()) {  // nobody has come for it since: it is not kept from others longer
      ReleaseGrant(0, FencingToken(), now);
      Pursue(now);
      return NextSend(now, early);
    }
    grant_->renewing = true;
    grant_->again = false;
    return Send{.operation = Operation::kRenew,
                .grant = grant_->id,
                .sent = now,
                .lease = grant_->terms.manual ? kLookOnly : grant_->terms.lease};
  }
  return std::nullopt;
}

std::optional<Send> LockMachine::NextSendOf(uint64_t hold, base::Instant now) {
  for (Debt& debt : debts_) {
    if (debt.hold != hold || debt.settled || debt.in_flight || now < debt.due) continue;
    return SendDebt(debt, now);
  }
  return std::nullopt;
}

Send LockMachine::SendDebt(Debt& debt, base::Instant now) {
  Send send{.operation = debt.operation,
            .grant = debt.grant,
            .sent = now,
            .lease = debt.lease,
            .tombstone = debt.tombstone,
            .last_used = debt.last_used,
            .last_reserved = debt.last_reserved,
            .block = debt.block};
  // The bid of those who wait here travels with the first try of the release.
  if (debt.operation == Operation::kRelease && !debt.tried_once && pursuit_ &&
      pursuit_->bid.attempt == 0 && config_.sharing == Sharing::kExclusive) {
    send.bid = NextBid(now, true);  // whoever released is likely to come again
    send.anew = std::exchange(missed_, 0) != 0;
    send.missed_since = missed_since_;
  }
  debt.in_flight = true;
  debt.tried_once = true;
  return send;
}

std::optional<Send> LockMachine::Extend(uint64_t hold, absl::Duration lease, base::Instant now) {
  if (!Valid(hold, now) || !grant_->terms.manual) return std::nullopt;
  return Send{.operation = Operation::kRenew, .grant = grant_->id, .sent = now, .lease = lease};
}

bool LockMachine::Wants(const Send& send) const {
  switch (send.operation) {
    case Operation::kAcquire:
      return pursuit_ && pursuit_->bid.grant == send.grant;
    case Operation::kRenew:
      return grant_ && grant_->id == send.grant;
    case Operation::kRelease:  // its bid may be given up: a tombstone sees to that
    case Operation::kCancel:
      return true;
  }
  return true;
}

void LockMachine::OnAnswer(const Send& send, const Answer& answer, base::Instant now,
                           Effects& effects) {
  Expire(now, effects);
  if (answer.kind != Answer::Kind::kFailed) Heard(now);
  if (send.operation == Operation::kRenew) return OnRenewal(send, answer, now, effects);
  if (send.operation != Operation::kAcquire && !OnLook(send, answer, now)) {
    OnDebtAnswer(send, answer, now, effects);
  }
  if (send.bid.grant != 0) {
    if (answer.deaf) {
      misses_ = 0;  // no message can come: its place in the queue is not to blame
      missed_ = 0;
    } else if (answer.missed) {
      OnMissed(send.bid.grant);
    }
    if (answer.kind == Answer::Kind::kFailed) {
      OnBidFailed(send, answer, now, effects);
    } else {
      OnBid(send, answer.bid, now, effects);
    }
    if (answer.deaf) PollSoon(send.bid.grant, now);
  }
  if (answer.look > absl::ZeroDuration()) LookAfter(answer.look, now, answer.look_later);
}

// How much sooner than due a renewal may be; a confirmation is spared if the hold ends before it.
absl::Duration LockMachine::Early(absl::Duration early) const {
  return grant_->claimed ? absl::ZeroDuration()
                         : std::min(early, Scaled(grant_->terms.lease, 1, 32));
}

void LockMachine::Prolong(base::Instant sent, absl::Duration lease, base::Instant now) {
  grant_->deadline = std::max(grant_->deadline, sent + (lease - DriftMargin(lease)));
  grant_->lost_at = grant_->deadline - ExpiryLead(grant_->terms.lease);
  for (const ThreadHold& hold : grant_->holds) {
    if (hold.view != nullptr) hold.view->Prolong(grant_->deadline);
  }
  grant_->server_expires = std::max(grant_->server_expires, now + lease);
}

void LockMachine::OnRenewal(const Send& send, const Answer& answer, base::Instant now,
                            Effects& effects) {
  if (!grant_ || grant_->id != send.grant) {
    // It was released meanwhile, and then or later the server gave it its lease anew.
    Debt* const debt = FindDebt(send.grant);
    const bool renewed = answer.kind == Answer::Kind::kHeld || answer.may_have_executed;
    if (debt != nullptr && renewed) debt->expires = std::max(debt->expires, now + send.lease);
    return;
  }
  Grant& grant = *grant_;
  const bool extension = grant.terms.manual && send.lease != kLookOnly;
  if (!extension) grant.renewing = false;
  // A confirmation is part of the acquisition, and no renewal of which anybody need hear.
  const bool told = held() && !grant.terms.manual && !grant.claimed;
  const FencingToken token = held() ? grant.holds.front().token : FencingToken();
  if (answer.kind == Answer::Kind::kHeld) {
    Prolong(send.sent, send.lease, now);
    grant.last_failure = absl::OkStatus();
    if (extension) return;
    grant.claimed = false;
    grant.renew_due = grant.again ? now : RenewDue(grant.terms, send.sent);
    grant.failures = 0;
    if (told) {
      ++tally_.renewed;
      effects.notices.push_back({.kind = Notice::Kind::kRenewed, .token = token});
    }
    if (grant.at_risk) {
      effects.notices.push_back({.kind = Notice::Kind::kRecovered, .token = token});
    }
    grant.at_risk = false;
    if (joined()) {
      grant.asked = send.sent;
      grant.others = answer.bid.others > 0;
      LetJoin(now, effects);
    }
    return;
  }
  if (answer.kind == Answer::Kind::kNotHeld) {
    return Lose(grant.forced ? kForcedReason : kGoneReason, now, effects);
  }
  if (absl::IsFailedPrecondition(answer.failure) && !answer.not_sent) {
    return Lose(std::string(answer.failure.message()), now, effects);
  }
  if (answer.may_have_executed) {
    grant.server_expires = std::max(grant.server_expires, now + send.lease);
  }
  if (extension) return;
  grant.renew_due =
      now + Spread(std::min(kFirstBackoff, grant.terms.lease / 10),
                   std::min(kLongestBackoff, grant.terms.lease / 10), grant.failures++, grant.id);
  if (grant.again) grant.renew_due = now;
  grant.last_failure = base::Unshared(answer.failure);
  if (joined()) LetJoin(now, effects);
  if (told) ++tally_.renewals_failed;
  if (grant.at_risk || !told) return;
  grant.at_risk = true;
  effects.notices.push_back({.kind = Notice::Kind::kAtRisk,
                             .token = token,
                             .remaining = grant.deadline - now,
                             .why = base::Unshared(answer.failure)});
}

// The server's answer tells what is so now.
void LockMachine::OnForced(GrantId grant, base::Instant now) {
  if (grant_ && grant_->id == grant) {
    grant_->forced = true;
    RenewNow(now);
  }
  if (pursuit_ && pursuit_->bid.grant == grant) AskNow(now);
}

void LockMachine::RenewNow(base::Instant now) {
  grant_->renew_due = now;
  grant_->again = grant_->renewing;
}

void LockMachine::AskNow(base::Instant now) {
  pursuit_->due = now;
  pursuit_->again = pursuit_->in_flight;
}

void LockMachine::OnReconnected(base::Instant now) {
  if (grant_) RenewNow(now);
  if (pursuit_) AskNow(now);
  for (Debt& debt : debts_) debt.due = std::max(now, embargo_);
}

}  // namespace redlatch::engine
