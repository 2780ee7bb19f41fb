#include "src/engine/machine/debts.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "src/base/status.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

// So many are taken back beyond their time.
constexpr size_t kMostGhosts = 64;

}  // namespace

Debts::Debt* Debts::Find(GrantId grant) {
  for (Debt& debt : debts_) {
    if (debt.send.grant == grant && !debt.settled) return &debt;
  }
  return nullptr;
}

Debts::Debt* Debts::FindOf(uint64_t hold) {
  for (Debt& debt : debts_) {
    if (debt.hold == hold && hold != 0) return &debt;
  }
  return nullptr;
}

void Debts::Prolong(GrantId grant, base::Instant expires) {
  if (Debt* const debt = Find(grant)) {
    debt->expires = std::max(debt->expires, expires);
  }
}

Debts::Due Debts::Start(Debt& debt, base::Instant now) {
  debt.in_flight = true;
  debt.postponed = false;
  debt.send.sent = now;
  if (auto* const release = std::get_if<ToRelease>(&debt.send.what)) {
    release->expires = debt.expires;
  }
  return {.send = debt.send, .first = !std::exchange(debt.tried_once, true)};
}

std::optional<Debts::Due> Debts::Next(base::Instant now) {
  for (size_t i = 0; i < debts_.size();) {
    Debt& debt = debts_[i];
    const size_t before = debts_.size();
    if (debt.settled || debt.in_flight || now < debt.due) {
      ++i;
    } else if (debt.tried_once && IsOver(debt, now)) {
      Settle(debt, Released::Kind::kLost);
      if (debts_.size() == before) ++i;
    } else {
      return Start(debt, now);
    }
  }
  return std::nullopt;
}

std::optional<Debts::Due> Debts::NextOf(uint64_t hold, base::Instant now) {
  Debt* const debt = FindOf(hold);
  if (debt == nullptr || debt->settled || debt->in_flight || now < debt->due) return std::nullopt;
  return Start(*debt, now);
}

std::optional<Debts::Due> Debts::NextUnasked(base::Instant now) {
  for (Debt& debt : debts_) {
    const bool release = std::holds_alternative<ToRelease>(debt.send.what);
    if (release && debt.hold == 0 && !debt.settled && !debt.in_flight && debt.due <= now) {
      return Start(debt, now);
    }
  }
  return std::nullopt;
}

void Debts::Postpone(uint64_t hold) {
  Debt* const debt = FindOf(hold);
  if (debt == nullptr || !debt->in_flight) return;
  debt->in_flight = false;
  debt->tried_once = debt->failures > 0;
  debt->postponed = true;
}

base::Instant Debts::due() const {
  base::Instant due = base::Instant::Infinite();
  for (const Debt& debt : debts_) {
    if (!debt.settled && !debt.in_flight && !debt.postponed) due = std::min(due, debt.due);
  }
  return due;
}

// Forgets the debt, unless somebody may still ask what became of it.
void Debts::Settle(Debt& debt, Released::Kind kind, absl::Status failure) {
  if (std::exchange(debt.releases, false) && kind != Released::Kind::kDone) ++failed_;
  if (debt.hold == 0) return Erase(debt);
  debt.settled = true;
  debt.in_flight = false;
  debt.outcome.kind = kind;
  debt.outcome.failure = std::move(failure);
}

void Debts::OnAnswer(const Send& send, const Answer& answer, base::Instant now, Effects& effects) {
  Debt* const debt = Find(send.grant);
  if (debt == nullptr) return;
  debt->in_flight = false;
  if (std::holds_alternative<NotHeld>(answer.what)) {
    // An earlier try was executed, as nothing else ends a grant before its deadline; else it had
    // been lost.
    const bool by_us = debt->uncertain && now < debt->deadline;
    return Settle(*debt, by_us ? Released::Kind::kDone : Released::Kind::kLost);
  }
  const Failed* const failed = answer.failed();
  if (failed == nullptr) return Settle(*debt, Released::Kind::kDone);

  debt->uncertain |= failed->may_have_executed;
  debt->silent = failed->may_have_executed;
  const bool may_pass = failed->not_sent || absl::IsUnavailable(failed->why) ||
                        absl::IsResourceExhausted(failed->why);
  if (!may_pass) {
    if (debt->releases) {
      effects.notices.push_back({.kind = Notice::Kind::kReleaseFailed,
                                 .token = debt->outcome.token,
                                 .remaining = std::max(debt->expires - now, absl::ZeroDuration()),
                                 .why = base::Unshared(failed->why)});
    }
    return Settle(*debt, Released::Kind::kRefused, base::Unshared(failed->why));
  }
  debt->outcome.failure = base::Unshared(failed->why);
  const absl::Duration backoff =
      debt->failures == 0 ? absl::ZeroDuration()  // a connection that broke: at once, on the next
                          : Spread(kFirstBackoff, kLongestBackoff / 2, debt->failures, send.grant);
  ++debt->failures;
  debt->due = now + backoff;
  if (now < debt->expires) debt->due = std::min(debt->due, debt->expires);
}

bool Debts::Hurry(base::Instant now) {
  bool under_way = false;
  for (Debt& debt : debts_) {
    if (debt.settled) continue;
    if (absl::IsUnavailable(debt.outcome.failure)) debt.due = std::min(debt.due, now);
    under_way |= debt.in_flight || debt.due <= now;
  }
  return under_way;
}

void Debts::RepeatAll(base::Instant due) {
  for (Debt& debt : debts_) debt.due = due;
}

// Whether nothing is left of it at the server. A server that was only stopped still has the request
// that the debt takes back, and executes it when it goes on, however late.
bool Debts::IsOver(const Debt& debt, base::Instant now) const {
  return debt.expires <= now &&
         !(debt.send.leaves_tombstone() && debt.silent && debts_.size() <= kMostGhosts);
}

std::optional<Released> Debts::Repeat(uint64_t hold, base::Instant now) {
  Debt* const debt = FindOf(hold);
  if (debt == nullptr) return std::nullopt;
  if (debt->settled) return Outcome(hold);
  if (!debt->in_flight) debt->due = now;
  return Released{.kind = Released::Kind::kUnderWay, .hold = hold, .token = debt->outcome.token};
}

Released Debts::Outcome(uint64_t hold) {
  Debt* const debt = FindOf(hold);
  if (debt == nullptr) return {.kind = Released::Kind::kLost, .hold = hold};
  Released outcome = debt->outcome;
  outcome.failure = base::Unshared(outcome.failure);
  if (debt->settled) Erase(*debt);
  return outcome;
}

void Debts::Forget(uint64_t hold) {
  Debt* const debt = FindOf(hold);
  if (debt == nullptr) return;
  debt->hold = 0;
  if (debt->settled) Erase(*debt);
}

bool Debts::fresh() const {
  return std::all_of(debts_.begin(), debts_.end(), [](const Debt& debt) {
    return (debt.in_flight || debt.postponed) && debt.failures == 0 && !debt.settled;
  });
}

uint64_t Debts::releasing() const {
  return static_cast<uint64_t>(std::count_if(debts_.begin(), debts_.end(), [](const Debt& debt) {
    return debt.releases && !debt.settled;
  }));
}

}  // namespace redlatch::engine
