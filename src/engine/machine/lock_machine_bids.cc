// What the client asks of the server so as to get the lock, and what it hears.
#include <algorithm>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

constexpr uint32_t kBlock = 4096;
constexpr absl::Duration kFirstPoll = absl::Milliseconds(50);
constexpr absl::Duration kBehindARelease = absl::Milliseconds(1);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(500);

bool MayPass(const absl::Status& failure, bool queued) {
  return absl::IsUnavailable(failure) || (queued && absl::IsResourceExhausted(failure));
}

}  // namespace

// Brings the pursuit in line with the queue.
void LockMachine::Pursue(base::Instant now) {
  if (grant_) return;
  const Waiter* const head = queue_.head();
  if (head == nullptr) server_.Forget();
  if (pursuit_ && (head == nullptr || pursuit_->bid.terms != head->terms)) AbandonPursuit(now);
  if (pursuit_ || head == nullptr) return;
  pursuit_.emplace();
  pursuit_->bid.grant = NextNumber();
  pursuit_->bid.terms = head->terms;
  pursuit_->began = now;
  pursuit_->due = now;
}

void LockMachine::AbandonPursuit(base::Instant now) {
  const Pursuit& pursuit = *pursuit_;
  const bool unanswered = pursuit.in_flight || pursuit.uncertain;
  if (unanswered || pursuit.queued) {
    debts_.Add({
        .operation = Operation::kCancel,
        .grant = pursuit.bid.grant,
        .lease = pursuit.bid.terms.lease,
        .tombstone = unanswered,
        .block = pursuit.bid.block,
        .expires = now + LongestGhost(pursuit.bid.terms.lease, config_.longest_heartbeat),
        .due = now,
    });
  }
  pursuit_.reset();
}

// The pursuit's next attempt. `contended`: several threads of this client are after the lock.
Bid LockMachine::NextBid(base::Instant now, bool contended) {
  Pursuit& pursuit = *pursuit_;
  const Waiter& head = *queue_.head();
  if (pursuit.bid.attempt == 0) {
    const bool passes_on = contended && !head.terms.manual && !config_.explicit_owner &&
                           config_.sharing.passes_on &&
                           head.options->local_window > absl::ZeroDuration();
    pursuit.bid.block = passes_on ? kBlock : head.terms.permits;
  }
  pursuit.bid.wait = false;
  for (const Waiter* waiter = &head; waiter != nullptr; waiter = waiter->next) {
    if (waiter->patience == Patience::kNone) continue;
    pursuit.bid.wait = true;
    break;
  }
  ++pursuit.bid.attempt;
  pursuit.bid.listen = pursuit.bid.attempt > 1;
  pursuit.bid.told = told_;
  pursuit.again = false;
  pursuit.attempts.push_back({.number = pursuit.bid.attempt, .sent = now});
  pursuit.in_flight = true;
  Bid bid = pursuit.bid;
  // Whoever misses message after message comes last, and so keeps nobody waiting for its claims.
  if (misses_ > 0) bid.ticket = 0;
  // What is left of a claim is to become the whole lease, also of a manual hold.
  if (pursuit.claimed) bid.terms.manual = false;
  return bid;
}

// The answer to a bid that a message has granted meanwhile.
void LockMachine::OnLateBid(const Send& send, const BidAnswer& answer, base::Instant now,
                            Effects& effects) {
  grant_->in_flight = false;
  if (answer.kind == BidAnswer::Kind::kGranted) {
    Prolong(send.sent, answer.lease, now);
    grant_->asked = send.sent;
    grant_->others = answer.others > 0;
    if (grant_->claimed && answer.lease >= grant_->terms.lease) {
      grant_->claimed = false;
      grant_->renew_due = RenewDue(grant_->terms, send.sent);
    }
  } else if (answer.kind == BidAnswer::Kind::kQueued && send.bid.attempt > grant_->attempt) {
    // Queued after a grant that echoes an earlier attempt: the grant was over by then.
    // The release takes it from the queue.
    Lose("the server no longer had it: its lease had expired there, or its release was forced", now,
         now, effects);
  }
}

void LockMachine::OnBid(const Send& send, const BidAnswer& answer, base::Instant now,
                        Effects& effects) {
  const Bid& bid = send.bid;
  const bool granted = answer.kind == BidAnswer::Kind::kGranted;
  if (grant_ && grant_->id == bid.grant) return OnLateBid(send, answer, now, effects);
  if (!pursuit_ || pursuit_->bid.grant != bid.grant) {
    const bool holds = granted && config_.sharing.holds;
    if (holds || answer.kind == BidAnswer::Kind::kQueued) {
      OnUnwanted(bid.grant, bid.terms.lease, bid.block, now);
    }
    return;
  }
  pursuit_->in_flight = false;
  auto& attempts = pursuit_->attempts;
  while (!attempts.empty() && attempts.front().number < bid.attempt) {
    attempts.erase(attempts.begin());
  }
  switch (answer.kind) {
    case BidAnswer::Kind::kGranted: {
      const NewGrant news{.grant = bid.grant,
                          .attempt = bid.attempt,
                          .token = answer.token,
                          .claim = answer.lease,
                          .others = answer.others};
      // What is left of a claim is not the lease that was asked for.
      const bool claim =
          bid.terms.manual && pursuit_->queued && answer.lease < bid.terms.lease / 10 * 9;
      if (claim) return ConfirmFirst(now, effects);
      return Granted(news, {.lease = answer.lease, .asked = send.sent}, now, effects);
    }
    case BidAnswer::Kind::kQueued:
      debts_.Hurry(now);
      return OnQueued(answer, now, effects);
    case BidAnswer::Kind::kBusy:
      taken_at_ = now;
      // It may be a grant of ours that keeps us out, whose release was overtaken: ask behind that.
      if (debts_.Hurry(now)) {
        pursuit_->due = now + kBehindARelease;
        return;
      }
      RefuseImpatient(effects);
      pursuit_->due = now;
      return Pursue(now);
    case BidAnswer::Kind::kGone:
      pursuit_.reset();
      return Pursue(now);
    case BidAnswer::Kind::kNone:  // of a re-queue: nothing was released, so nothing was queued
      pursuit_->due = now;
      return;
  }
}

// The server says that the bid was granted, or left the queue, and no message said so.
void LockMachine::OnMissed(GrantId grant) {
  if (!pursuit_ || pursuit_->bid.grant != grant || !pursuit_->queued || pursuit_->claimed) return;
  ++misses_;
  missed_ = grant;
  missed_since_ = pursuit_->began;
}

// No message will tell when it is this waiter's turn.
void LockMachine::PollSoon(GrantId grant, base::Instant now) {
  if (!pursuit_ || pursuit_->bid.grant != grant) return;
  const absl::Duration poll =
      std::max(kFirstPoll, Spread(kFirstPoll * 2, kLongestPoll, pursuit_->polls++, grant));
  pursuit_->due = std::min(pursuit_->due, now + poll);
}

void LockMachine::OnQueued(const BidAnswer& answer, base::Instant now, Effects& effects) {
  Pursuit& pursuit = *pursuit_;
  taken_at_ = now;
  pursuit.queued = true;
  pursuit.claimed = false;
  pursuit.failures = 0;
  pursuit.bid.ticket = answer.ticket;
  OnTold(answer.told);
  pursuit.due = now + HeartbeatInterval(pursuit.bid.terms.lease, config_.longest_heartbeat);
  if (pursuit.bid.attempt == 1) {
    pursuit.began = now;
    if (usual_wait_ > absl::ZeroDuration()) {
      pursuit.due = std::min(pursuit.due, now + LongWait(usual_wait_));
    }
  }
  if (answer.position == 0) {
    if (answer.retry_after < absl::ZeroDuration()) {
      PollSoon(pursuit.bid.grant, now);
    } else {
      pursuit.due = std::min(pursuit.due, now + answer.retry_after + absl::Milliseconds(1));
    }
  }
  if (pursuit.again) pursuit.due = now;
  RefuseImpatient(effects);
  Pursue(now);
}

void LockMachine::OnTold(const Told& told) {
  if (told.counts > told_.counts) told_ = told;
}

void LockMachine::OnBidFailed(const Send& send, const Answer& answer, base::Instant now,
                              Effects& effects) {
  const Bid& bid = send.bid;
  if (grant_ && grant_->id == bid.grant) {
    grant_->in_flight = false;
    grant_->uncertain |= answer.may_have_executed;
  }
  if (!pursuit_ || pursuit_->bid.grant != bid.grant) return;
  Pursuit& pursuit = *pursuit_;
  pursuit.in_flight = false;
  pursuit.uncertain |= answer.may_have_executed;
  if (!MayPass(answer.failure, pursuit.queued)) {
    FailAll(answer.failure, effects);
    return Pursue(now);
  }
  if (absl::IsUnavailable(answer.failure)) {
    Unreachable(send.sent, answer.failure, now, effects);
  } else {
    FailIf(Patience::kNone, base::Instant::Infinite(), answer.failure, effects);
    server_.Heard(now);
  }
  pursuit.due = now + Spread(kFirstBackoff, kLongestBackoff, pursuit.failures++, pursuit.bid.grant);
  if (pursuit.again) pursuit.due = now;
  Pursue(now);
}

void LockMachine::OnUnwanted(GrantId grant, absl::Duration lease, uint32_t block,
                             base::Instant now) {
  if (debts_.Has(grant)) return;
  debts_.Add({.operation = Operation::kCancel,
              .grant = grant,
              .lease = lease,
              .block = block,
              .expires = now + LongestGhost(lease, config_.longest_heartbeat),
              .due = now});
}

}  // namespace redlatch::engine
