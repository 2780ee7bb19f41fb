// What the client owes the server: holds to be released, bids to be cancelled; and the timers.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/status.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

// So many are taken back beyond their time.
constexpr size_t kMostGhosts = 64;

}  // namespace

LockMachine::Debt* LockMachine::FindDebt(GrantId grant) {
  for (Debt& debt : debts_) {
    if (debt.grant == grant && !debt.settled) return &debt;
  }
  return nullptr;
}

// Forgets the debt, unless somebody may still ask what became of it.
void LockMachine::Settled(Debt& debt, Released::Kind kind, absl::Status failure) {
  if (std::exchange(debt.releases, false) && kind != Released::Kind::kDone) {
    ++tally_.releases_failed;
  }
  if (debt.hold == 0) {
    debts_.erase(debts_.begin() + (&debt - debts_.data()));
    return;
  }
  debt.settled = true;
  debt.in_flight = false;
  debt.outcome.kind = kind;
  debt.outcome.failure = std::move(failure);
}

void LockMachine::OnDebtAnswer(const Send& send, const Answer& answer, base::Instant now,
                               Effects& effects) {
  Debt* const debt = FindDebt(send.grant);
  if (debt == nullptr) return;
  debt->in_flight = false;
  if (answer.kind == Answer::Kind::kNotHeld) {
    // An earlier try was executed, as nothing else ends a hold before its deadline; else it had
    // been lost.
    const bool by_us = debt->uncertain && now < debt->deadline;
    return Settled(*debt, by_us ? Released::Kind::kDone : Released::Kind::kLost);
  }
  if (answer.kind != Answer::Kind::kFailed) return Settled(*debt, Released::Kind::kDone);

  debt->uncertain |= answer.may_have_executed;
  debt->silent = answer.may_have_executed;
  const bool may_pass = answer.not_sent || absl::IsUnavailable(answer.failure) ||
                        absl::IsResourceExhausted(answer.failure);
  if (!may_pass) {
    if (debt->releases) {
      effects.notices.push_back({.kind = Notice::Kind::kReleaseFailed,
                                 .token = debt->outcome.token,
                                 .remaining = std::max(debt->expires - now, absl::ZeroDuration()),
                                 .why = base::Unshared(answer.failure)});
    }
    return Settled(*debt, Released::Kind::kRefused, base::Unshared(answer.failure));
  }
  debt->outcome.failure = base::Unshared(answer.failure);
  const absl::Duration backoff =
      debt->failures == 0 ? absl::ZeroDuration()  // a connection that broke: at once, on the next
                          : Spread(kFirstBackoff, kLongestBackoff / 2, debt->failures, debt->grant);
  ++debt->failures;
  debt->due = now + backoff;
  if (now < debt->expires) debt->due = std::min(debt->due, debt->expires);
}

// The server answers: what went unanswered is repeated now. Whether anything is on its way.
bool LockMachine::HurryDebts(base::Instant now) {
  bool under_way = false;
  for (Debt& debt : debts_) {
    if (debt.settled) continue;
    if (absl::IsUnavailable(debt.outcome.failure)) debt.due = std::min(debt.due, now);
    under_way |= debt.in_flight || debt.due <= now;
  }
  return under_way;
}

// Whether nothing is left of it at the server. A server that was only stopped still has the request
// that the debt takes back, and executes it when it goes on, however late.
bool LockMachine::IsOver(const Debt& debt, base::Instant now) const {
  return debt.expires <= now && !(debt.tombstone && debt.silent && debts_.size() <= kMostGhosts);
}

Released LockMachine::Outcome(uint64_t hold) {
  for (Debt& debt : debts_) {
    if (debt.hold != hold) continue;
    Released outcome = debt.outcome;
    outcome.failure = base::Unshared(outcome.failure);
    if (debt.settled) debts_.erase(debts_.begin() + (&debt - debts_.data()));
    return outcome;
  }
  return {.kind = Released::Kind::kLost, .hold = hold};
}

void LockMachine::Forget(uint64_t hold) {
  for (Debt& debt : debts_) {
    if (debt.hold != hold) continue;
    debt.hold = 0;
    if (debt.settled) Settled(debt, debt.outcome.kind);
    return;
  }
}

base::Instant LockMachine::next_send() const {
  base::Instant next = base::Instant::Infinite();
  for (const Debt& debt : debts_) {
    if (!debt.settled && !debt.in_flight) next = std::min(next, debt.due);
  }
  if (pursuit_ && !pursuit_->in_flight) next = std::min(next, std::max(pursuit_->due, embargo_));
  if (look_ && !look_->in_flight) next = std::min(next, look_->due);
  if (grant_ && !grant_->renewing && grant_->renew_due < next &&
      grant_->renew_due < next_expiry()) {
    next = grant_->renew_due;
  }
  return next;
}

base::Instant LockMachine::next_expiry() const {
  return grant_ ? grant_->lost_at : base::Instant::Infinite();
}

bool LockMachine::idle() const { return vacant() && !look_; }

bool LockMachine::vacant() const {
  return queue_.empty() && !pursuit_ && !grant_ && debts_.empty();
}

}  // namespace redlatch::engine
