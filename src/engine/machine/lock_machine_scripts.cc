// Scripts: which is due, and what becomes of their answers.
#include <algorithm>
#include <utility>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

std::optional<Send> LockMachine::NextSend(base::Instant now, absl::Duration early) {
  if (auto due = debts_.Next(now)) return WithBid(*std::move(due), now);
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
  if (std::optional<Send> look = looks_.Next(now)) return look;
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
  auto due = debts_.NextOf(hold, now);
  if (!due) return std::nullopt;
  return WithBid(*std::move(due), now);
}

// The bid of those who wait here travels with the first try of a release.
Send LockMachine::WithBid(Debts::Due due, base::Instant now) {
  Send& send = due.send;
  if (send.operation == Operation::kRelease && due.first && pursuit_ &&
      pursuit_->bid.attempt == 0 && config_.sharing.passes_on) {
    send.bid = NextBid(now, true);  // whoever released is likely to come again
    send.anew = std::exchange(missed_, 0) != 0;
    send.missed_since = missed_since_;
  }
  return std::move(send);
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
  if (answer.kind != Answer::Kind::kFailed) server_.Heard(now);
  if (send.operation == Operation::kRenew) return OnRenewal(send, answer, now, effects);
  if (send.operation != Operation::kAcquire &&
      !looks_.OnAnswer(send, answer, now, [this] { return NextNumber(); })) {
    debts_.OnAnswer(send, answer, now, effects);
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

// How much sooner than due a renewal may be; a confirmation is spared if the grant ends before it.
absl::Duration LockMachine::Early(absl::Duration early) const {
  return grant_->claimed ? absl::ZeroDuration()
                         : std::min(early, Scaled(grant_->terms.lease, 1, 32));
}

void LockMachine::AskNow(base::Instant now) {
  pursuit_->due = now;
  pursuit_->again = pursuit_->in_flight;
}

// A script handed the lock over; or, with a look of a millisecond, it came to the end of a window,
// and whoever ran it goes on at once.
void LockMachine::LookAfter(absl::Duration look, base::Instant now, absl::Duration later) {
  const auto fresh = [this] { return NextNumber(); };
  const bool at_once = look <= absl::Milliseconds(1);
  base::Instant then = base::Instant::Infinite();
  if (later > absl::ZeroDuration()) then = now + later + kLookGrace;
  if (at_once && pursuit_ && pursuit_->queued) {  // its heartbeat goes on as well
    pursuit_->due = std::min(pursuit_->due, now);
    pursuit_->again |= pursuit_->in_flight;
    // The heartbeat does not stand for the look: it may be late, or never come.
    if (!then.is_infinite()) looks_.Add(then, fresh);
    return;
  }
  if (grant_ && config_.sharing.passes_on) return;
  if (at_once) return looks_.AddAtOnce(now, then, fresh);
  looks_.Add(now + look + kLookGrace, fresh);
}

void LockMachine::OnReconnected(base::Instant now) {
  if (grant_) RenewNow(now);
  if (pursuit_) AskNow(now);
  debts_.RepeatAll(std::max(now, embargo_));
}

base::Instant LockMachine::next_send() const {
  base::Instant next = std::min(debts_.due(), looks_.due());
  if (pursuit_ && !pursuit_->in_flight) next = std::min(next, std::max(pursuit_->due, embargo_));
  if (grant_ && !grant_->renewing && grant_->renew_due < next &&
      grant_->renew_due < next_expiry()) {
    next = grant_->renew_due;
  }
  return next;
}

base::Instant LockMachine::next_expiry() const {
  return grant_ ? grant_->lost_at : base::Instant::Infinite();
}

bool LockMachine::idle() const { return vacant() && looks_.none(); }

bool LockMachine::vacant() const {
  return queue_.empty() && !pursuit_ && !grant_ && debts_.empty();
}

}  // namespace redlatch::engine
