// What the client has at the server: kept, given back, or lost.
#include <algorithm>
#include <utility>
#include <variant>

#include "src/base/status.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

// In so long others may have come.
constexpr absl::Duration kLongSection = absl::Milliseconds(1);

constexpr char kForcedReason[] = "someone forced its release, as redlatch break does";
constexpr char kGoneReason[] =
    "the server no longer has it: its lease expired there, the server lost its data, or something "
    "overwrote it";

}  // namespace

void LockMachine::ReleaseGrant(uint64_t hold, FencingToken token, base::Instant now) {
  Owe({.hold = hold,
       .due = now,
       .releases = true,
       .outcome = {.kind = Released::Kind::kUnderWay,
                   .hold = hold,
                   .token = hold != 0 ? token : FencingToken(grant_->next_token - 1)}},
      now);
}

// `debt` tells why; the rest is the grant's.
void LockMachine::Owe(Debts::Debt debt, base::Instant now) {
  const Grant& grant = *grant_;
  const absl::Duration lease = grant.terms.lease;
  const bool tombstone = grant.in_flight || grant.uncertain;
  // See lua/common/give_back_kept.lua.
  const bool unheard =
      MayStay(grant.id) && config_.sharing.passes_on && (grant.renewing || grant.failures > 0);
  uint64_t last_used = grant.next_token - 1;
  // To give back one token that nobody drew is not worth more than a plain release.
  if (grant.last_token == grant.first_token && !unheard) last_used = grant.last_token;
  const bool waited_for =
      grant.others || grant.queued || grant.wanted || now - grant.reserved > kLongSection;
  debt.send = {.what = ToRelease{.tombstone = tombstone,
                                 // Not where it asks again and again: that is load enough.
                                 .awaited = waited_for && !bids_at_once_,
                                 .last_used = last_used,
                                 .last_reserved = unheard ? 0 : grant.last_token},
               .grant = grant.id,
               .lease = lease};
  if (grant.others || (joined() && grant.wanted)) handed_at_ = now;
  debt.deadline = grant.deadline;
  // What is on its way may still be executed: a renewal, or a bid, which brings the grant back.
  debt.expires = grant.server_expires;
  if (grant.renewing || grant.terms.acks.any()) {
    debt.expires = std::max(debt.expires, now + lease);
  }
  if (tombstone) {
    debt.expires = std::max(debt.expires, now + LongestGhost(lease, config_.longest_heartbeat));
  }
  debts_.Add(std::move(debt));
  grant_.reset();
  if (!joined()) taken_at_ = now;  // readers keep no reader out
}

// It is released in any case: where the server says that the grant is gone, a bid that was on its
// way may have brought it back since.
void LockMachine::Lose(const std::string& reason, base::Instant release_at, base::Instant now,
                       Effects& effects) {
  auto holds = std::move(grant_->holds);
  Owe({.due = release_at}, now);
  for (ThreadHold& hold : holds) {
    ++tally_.lost;
    if (config_.counts) tally_.held_for.Add(hold.began, now);
    // current() shows it until unlock().
    if (hold.std_depth > 0 && hold.view == nullptr) hold.view = std::make_shared<HoldView>();
    if (hold.view != nullptr) hold.view->Lose();
    if (hold.std_depth > 0) {
      if (lost_std_ == nullptr) lost_std_ = std::make_unique<std::vector<LostStd>>();
      lost_std_->push_back({.thread = hold.thread,
                            .hold = hold.id,
                            .token = hold.token,
                            .depth = hold.std_depth,
                            .view = hold.view});
    }
    if (!hold.unconfirmed) effects.losses.push_back({.hold = std::move(hold), .reason = reason});
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
  Lose(reason, std::max(now, embargo_), now, effects);
}

std::optional<Send> LockMachine::Extend(uint64_t hold, absl::Duration lease, base::Instant now) {
  if (!Valid(hold, now) || !grant_->extends) return std::nullopt;
  return Renewal(lease, now);
}

Send LockMachine::Renewal(absl::Duration lease, base::Instant now) const {
  ToRenew what{
      .acks = grant_->terms.acks, .deadline = grant_->deadline, .last_token = grant_->last_token};
  if (what.acks.any()) what.patience = grant_->holds.front().options->ack_timeout;
  return Send{.what = what, .grant = grant_->id, .lease = lease, .sent = now};
}

std::optional<Send> LockMachine::Confirm(uint64_t hold, base::Instant by, base::Instant now) {
  if (!Valid(hold, now) || grant_->acked) return std::nullopt;
  for (ThreadHold& each : grant_->holds) each.unconfirmed = each.unconfirmed || each.id == hold;
  Send send = Renewal(grant_->terms.lease, now);
  absl::Duration& patience = std::get<ToRenew>(send.what).patience;
  patience = std::min(patience, std::max(by - now, absl::Milliseconds(1)));
  return send;
}

void LockMachine::Prolong(base::Instant sent, absl::Duration lease, base::Instant now) {
  grant_->deadline = std::max(grant_->deadline, sent + (lease - DriftMargin(lease)));
  grant_->lost_at = grant_->deadline - ExpiryLead(grant_->terms.lease);
  for (const ThreadHold& hold : grant_->holds) {
    if (hold.view != nullptr) hold.view->Prolong(grant_->deadline);
  }
  grant_->server_expires = std::max(grant_->server_expires, now + lease);
}

void LockMachine::OnHeld(const Send& send, const StillHeld& answer, bool extension,
                         base::Instant now, Effects& effects) {
  Grant& grant = *grant_;
  Prolong(send.sent, send.lease, now);
  grant.last_failure = absl::OkStatus();
  if (answer.acked) {
    grant.acked = true;
    grant.acked_by = answer.acked_by;
    for (ThreadHold& hold : grant.holds) {
      hold.unconfirmed = false;
      if (hold.view != nullptr) hold.view->SetAckedBy(answer.acked_by);
    }
  }
  if (extension) return;
  grant.last_token = std::max(grant.last_token, answer.last_token);
  const FencingToken token = held() ? grant.holds.front().token : FencingToken();
  if (TellsOfRenewals()) {
    ++tally_.renewed;
    effects.notices.push_back({.kind = Notice::Kind::kRenewed, .token = token});
  }
  if (grant.at_risk) {
    effects.notices.push_back({.kind = Notice::Kind::kRecovered, .token = token});
  }
  grant.at_risk = false;
  grant.claimed = grant.claimed && send.lease < grant.terms.lease;
  grant.renew_due =
      grant.claimed ? send.sent + Scaled(grant.claim, 1, 3) : RenewDue(grant.terms, send.sent);
  if (grant.again) grant.renew_due = now;
  grant.failures = 0;
  if (MayStay(grant.id) && answer.others > 0) OnWanted(grant.id, now);
  if (resting() && !queue_.empty()) {  // it may have tokens now
    return CanPass(*queue_.head(), now) ? GiveToHead(now, effects) : EndRest(now);
  }
  if (config_.explicit_owner && held()) LetOwnerIn(now, effects);
  if (!joined() || !grant_) return;
  grant.asked = send.sent;
  grant.others = answer.others > 0;
  LetJoin(now, effects);
}

void LockMachine::OnRenewal(const Send& send, const Answer& answer, base::Instant now,
                            Effects& effects) {
  const auto* const held = std::get_if<StillHeld>(&answer.what);
  const Failed* const failed = answer.failed();
  const bool may_have_executed = failed != nullptr && failed->may_have_executed;
  if (!Has(send.grant)) {
    // It was released meanwhile, and then or later the server gave it its lease anew.
    if (held != nullptr || may_have_executed) {
      debts_.Prolong(send.grant, now + send.lease);
    }
    return;
  }
  Grant& grant = *grant_;
  const bool extension = grant.terms.manual && send.lease != kLookOnly;
  if (!extension) grant.renewing = false;
  if (held != nullptr) return OnHeld(send, *held, extension, now, effects);
  if (failed == nullptr) {
    return Lose(grant.forced ? kForcedReason : kGoneReason, now, now, effects);
  }
  if (absl::IsFailedPrecondition(failed->why) && !failed->not_sent) {
    return Lose(std::string(failed->why.message()), now, now, effects);
  }
  if (may_have_executed) {
    grant.server_expires = std::max(grant.server_expires, now + send.lease);
  }
  if (extension) return;
  grant.renew_due =
      now + Spread(std::min(kFirstBackoff, grant.terms.lease / 10),
                   std::min(kLongestBackoff, grant.terms.lease / 10), grant.failures++, grant.id);
  if (grant.again) grant.renew_due = now;
  grant.last_failure = base::Unshared(failed->why);
  if (resting() && !queue_.empty()) return EndRest(now);
  if (joined()) LetJoin(now, effects);
  if (!TellsOfRenewals()) return;
  ++tally_.renewals_failed;
  if (grant.at_risk) return;
  grant.at_risk = true;
  effects.notices.push_back({.kind = Notice::Kind::kAtRisk,
                             .token = grant.holds.front().token,
                             .remaining = grant.deadline - now,
                             .why = base::Unshared(failed->why)});
}

// The server's answer tells what is so now.
void LockMachine::OnForced(GrantId grant, base::Instant now) {
  if (Has(grant)) {
    grant_->forced = true;
    RenewNow(now);
  }
  Bidder::OnForced(grant, now);
}

void LockMachine::RenewNow(base::Instant now) {
  grant_->renew_due = now;
  grant_->again = grant_->renewing;
}

}  // namespace redlatch::engine
