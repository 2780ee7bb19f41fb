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

void LockMachine::LetGo(uint64_t tenure, FencingToken token, base::Instant now) {
  const Holding& holding = *holding_;
  const absl::Duration lease = holding.terms.lease;
  const bool unanswered = holding.in_flight || holding.uncertain;
  // What is on its way may still be executed: a renewal, or a bid, which brings the hold back.
  base::Instant expires = holding.server_expires;
  if (holding.renewing) expires = std::max(expires, now + lease);
  if (unanswered) {
    expires = std::max(expires, now + LongestGhost(lease, config_.longest_heartbeat));
  }
  debts_.push_back({
      .operation = Operation::kRelease,
      .hold = holding.hold,
      .tenure = tenure,
      .lease = lease,
      .tombstone = unanswered,
      .last_used = holding.next_token - 1,
      .last_reserved = holding.last_token,
      .deadline = holding.deadline,
      .expires = expires,
      .due = now,
      .releases = true,
      .outcome = {.kind = Released::Kind::kUnderWay,
                  .tenure = tenure,
                  .token = tenure != 0 ? token : FencingToken(holding.next_token - 1)},
  });
  holding_.reset();
  if (!joined()) taken_at_ = now;  // readers keep no reader out
}

// It is released in any case: where the server says that the hold is gone, a bid that was on its
// way may have brought it back since.
void LockMachine::Lose(const std::string& reason, base::Instant now, Effects& effects) {
  auto tenures = std::move(holding_->tenures);
  LetGo(0, FencingToken(), now);
  debts_.back().releases = false;
  for (Tenure& tenure : tenures) {
    ++tally_.lost;
    if (config_.counts) tally_.held_for.Add(tenure.began, now);
    // current() shows it until unlock().
    if (tenure.std_depth > 0 && tenure.view == nullptr) {
      tenure.view = std::make_shared<TenureView>(base::Instant());
    }
    if (tenure.view != nullptr) tenure.view->Lose();
    if (tenure.std_depth > 0) {
      lost_std_.push_back({.thread = tenure.thread,
                           .tenure = tenure.id,
                           .token = tenure.token,
                           .depth = tenure.std_depth,
                           .view = tenure.view});
    }
    effects.losses.push_back({.tenure = std::move(tenure), .reason = reason});
  }
  Pursue(now);
}

void LockMachine::Expire(base::Instant now, Effects& effects) {
  if (now < next_expiry()) return;
  std::string reason =
      holding_->claimed ? "its hand-over was not confirmed in time" : "its lease expired";
  if (!holding_->last_failure.ok()) {
    reason += ", because it could not be renewed: " + std::string(holding_->last_failure.message());
  } else if (!holding_->terms.manual) {
    reason += ": this process was not running in time, or the server was silent";
  }
  if (held()) embargo_ = holding_->deadline;
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
                .hold = bid.hold,
                .sent = now,
                .lease = bid.terms.lease,
                .bid = bid,
                .anew = std::exchange(missed_, 0) != 0,
                .missed_since = missed_since_};
  }
  if (std::optional<Send> look = NextLook(now)) return look;
  if (holding_ && !holding_->renewing && now < holding_->deadline &&
      holding_->renew_due <= now + Early(early)) {
    if (!held()) {  // nobody has come for it since: it is not kept from others longer
      LetGo(0, FencingToken(), now);
      Pursue(now);
      return NextSend(now, early);
    }
    holding_->renewing = true;
    holding_->again = false;
    return Send{.operation = Operation::kRenew,
                .hold = holding_->hold,
                .sent = now,
                .lease = holding_->terms.manual ? kLookOnly : holding_->terms.lease};
  }
  return std::nullopt;
}

std::optional<Send> LockMachine::NextSendOf(uint64_t tenure, base::Instant now) {
  for (Debt& debt : debts_) {
    if (debt.tenure != tenure || debt.settled || debt.in_flight || now < debt.due) continue;
    return SendDebt(debt, now);
  }
  return std::nullopt;
}

Send LockMachine::SendDebt(Debt& debt, base::Instant now) {
  Send send{.operation = debt.operation,
            .hold = debt.hold,
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

std::optional<Send> LockMachine::Extend(uint64_t tenure, absl::Duration lease, base::Instant now) {
  if (!Valid(tenure, now) || !holding_->terms.manual) return std::nullopt;
  return Send{.operation = Operation::kRenew, .hold = holding_->hold, .sent = now, .lease = lease};
}

bool LockMachine::Wants(const Send& send) const {
  switch (send.operation) {
    case Operation::kAcquire:
      return pursuit_ && pursuit_->bid.hold == send.hold;
    case Operation::kRenew:
      return holding_ && holding_->hold == send.hold;
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
  if (send.bid.hold != 0) {
    if (answer.deaf) {
      misses_ = 0;  // no message can come: its place in the queue is not to blame
      missed_ = 0;
    } else if (answer.missed) {
      OnMissed(send.bid.hold);
    }
    if (answer.kind == Answer::Kind::kFailed) {
      OnBidFailed(send, answer, now, effects);
    } else {
      OnBid(send, answer.bid, now, effects);
    }
    if (answer.deaf) PollSoon(send.bid.hold, now);
  }
  if (answer.look > absl::ZeroDuration()) LookAfter(answer.look, now, answer.look_later);
}

// How much sooner than due a renewal may be; a confirmation is spared if the hold ends before it.
absl::Duration LockMachine::Early(absl::Duration early) const {
  return holding_->claimed ? absl::ZeroDuration()
                           : std::min(early, Scaled(holding_->terms.lease, 1, 32));
}

void LockMachine::Prolong(base::Instant sent, absl::Duration lease, base::Instant now) {
  holding_->deadline = std::max(holding_->deadline, sent + (lease - DriftMargin(lease)));
  holding_->lost_at = holding_->deadline - ExpiryLead(holding_->terms.lease);
  for (const Tenure& tenure : holding_->tenures) {
    if (tenure.view != nullptr) tenure.view->Prolong(holding_->deadline);
  }
  holding_->server_expires = std::max(holding_->server_expires, now + lease);
}

void LockMachine::OnRenewal(const Send& send, const Answer& answer, base::Instant now,
                            Effects& effects) {
  if (!holding_ || holding_->hold != send.hold) {
    // It was released meanwhile, and then or later the server gave it its lease anew.
    Debt* const debt = FindDebt(send.hold);
    const bool renewed = answer.kind == Answer::Kind::kHeld || answer.may_have_executed;
    if (debt != nullptr && renewed) debt->expires = std::max(debt->expires, now + send.lease);
    return;
  }
  Holding& holding = *holding_;
  const bool extension = holding.terms.manual && send.lease != kLookOnly;
  if (!extension) holding.renewing = false;
  // A confirmation is part of the acquisition, and no renewal of which anybody need hear.
  const bool told = held() && !holding.terms.manual && !holding.claimed;
  const FencingToken token = held() ? holding.tenures.front().token : FencingToken();
  if (answer.kind == Answer::Kind::kHeld) {
    Prolong(send.sent, send.lease, now);
    holding.last_failure = absl::OkStatus();
    if (extension) return;
    holding.claimed = false;
    holding.renew_due = holding.again ? now : RenewDue(holding.terms, send.sent);
    holding.failures = 0;
    if (told) {
      ++tally_.renewed;
      effects.notices.push_back({.kind = Notice::Kind::kRenewed, .token = token});
    }
    if (holding.at_risk) {
      effects.notices.push_back({.kind = Notice::Kind::kRecovered, .token = token});
    }
    holding.at_risk = false;
    if (joined()) {
      holding.asked = send.sent;
      holding.others = answer.bid.others > 0;
      LetJoin(now, effects);
    }
    return;
  }
  if (answer.kind == Answer::Kind::kNotHeld) {
    return Lose(holding.forced ? kForcedReason : kGoneReason, now, effects);
  }
  if (absl::IsFailedPrecondition(answer.failure) && !answer.not_sent) {
    return Lose(std::string(answer.failure.message()), now, effects);
  }
  if (answer.may_have_executed) {
    holding.server_expires = std::max(holding.server_expires, now + send.lease);
  }
  if (extension) return;
  holding.renew_due = now + Spread(std::min(kFirstBackoff, holding.terms.lease / 10),
                                   std::min(kLongestBackoff, holding.terms.lease / 10),
                                   holding.failures++, holding.hold);
  if (holding.again) holding.renew_due = now;
  holding.last_failure = base::Unshared(answer.failure);
  if (joined()) LetJoin(now, effects);
  if (told) ++tally_.renewals_failed;
  if (holding.at_risk || !told) return;
  holding.at_risk = true;
  effects.notices.push_back({.kind = Notice::Kind::kAtRisk,
                             .token = token,
                             .remaining = holding.deadline - now,
                             .why = base::Unshared(answer.failure)});
}

// The server's answer tells what is so now.
void LockMachine::OnForced(HoldNumber hold, base::Instant now) {
  if (holding_ && holding_->hold == hold) {
    holding_->forced = true;
    RenewNow(now);
  }
  if (pursuit_ && pursuit_->bid.hold == hold) AskNow(now);
}

void LockMachine::RenewNow(base::Instant now) {
  holding_->renew_due = now;
  holding_->again = holding_->renewing;
}

void LockMachine::AskNow(base::Instant now) {
  pursuit_->due = now;
  pursuit_->again = pursuit_->in_flight;
}

void LockMachine::OnReconnected(base::Instant now) {
  if (holding_) RenewNow(now);
  if (pursuit_) AskNow(now);
  for (Debt& debt : debts_) debt.due = std::max(now, embargo_);
}

}  // namespace redlatch::engine
