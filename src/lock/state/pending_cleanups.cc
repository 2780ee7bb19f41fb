#include "src/lock/state/pending_cleanups.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "src/base/status.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

// Cleanups of unanswered requests beyond this number end with their lease.
constexpr size_t kMostAbandoned = 64;

}  // namespace

PendingCleanups::PendingCleanup* PendingCleanups::Find(GrantId grant) {
  for (PendingCleanup& cleanup : cleanups_) {
    if (cleanup.request.grant == grant && !cleanup.settled) return &cleanup;
  }
  return nullptr;
}

PendingCleanups::PendingCleanup* PendingCleanups::FindOf(uint64_t hold) {
  for (PendingCleanup& cleanup : cleanups_) {
    if (cleanup.hold == hold && hold != 0) return &cleanup;
  }
  return nullptr;
}

void PendingCleanups::Prolong(GrantId grant, base::Instant expires) {
  if (PendingCleanup* const cleanup = Find(grant)) {
    cleanup->expires = std::max(cleanup->expires, expires);
  }
}

bool PendingCleanups::IsDue(const PendingCleanup& cleanup, base::Instant now) {
  return !cleanup.settled && !cleanup.in_flight && cleanup.due <= now;
}

PendingCleanups::Due PendingCleanups::Start(PendingCleanup& cleanup, base::Instant now) {
  cleanup.in_flight = true;
  cleanup.postponed = false;
  cleanup.request.sent = now;
  if (auto* const release = std::get_if<ReleaseRequest>(&cleanup.request.what)) {
    release->expires = cleanup.expires;
  }
  return {.request = cleanup.request, .first = !std::exchange(cleanup.tried_once, true)};
}

std::optional<PendingCleanups::Due> PendingCleanups::Next(base::Instant now) {
  for (size_t i = 0; i < cleanups_.size();) {
    PendingCleanup& cleanup = cleanups_[i];
    const size_t before = cleanups_.size();
    if (!IsDue(cleanup, now)) {
      ++i;
    } else if (cleanup.tried_once && IsOver(cleanup, now)) {
      Settle(cleanup, Released::Kind::kLost);
      if (cleanups_.size() == before) ++i;
    } else {
      return Start(cleanup, now);
    }
  }
  return std::nullopt;
}

std::optional<PendingCleanups::Due> PendingCleanups::NextOf(uint64_t hold, base::Instant now) {
  PendingCleanup* const cleanup = FindOf(hold);
  if (cleanup == nullptr || !IsDue(*cleanup, now)) return std::nullopt;
  return Start(*cleanup, now);
}

std::optional<PendingCleanups::Due> PendingCleanups::NextUnasked(base::Instant now) {
  for (PendingCleanup& cleanup : cleanups_) {
    const bool release = std::holds_alternative<ReleaseRequest>(cleanup.request.what);
    if (release && cleanup.hold == 0 && IsDue(cleanup, now)) return Start(cleanup, now);
  }
  return std::nullopt;
}

void PendingCleanups::Postpone(uint64_t hold) {
  PendingCleanup* const cleanup = FindOf(hold);
  if (cleanup == nullptr || !cleanup->in_flight) return;
  cleanup->in_flight = false;
  cleanup->tried_once = cleanup->failures > 0;
  cleanup->postponed = true;
}

base::Instant PendingCleanups::due() const {
  base::Instant due = base::Instant::Infinite();
  for (const PendingCleanup& cleanup : cleanups_) {
    if (!cleanup.settled && !cleanup.in_flight && !cleanup.postponed)
      due = std::min(due, cleanup.due);
  }
  return due;
}

// Forgets the cleanup, unless a caller may ask for its outcome.
void PendingCleanups::Settle(PendingCleanup& cleanup, Released::Kind kind, absl::Status failure) {
  if (std::exchange(cleanup.releases, false) && kind != Released::Kind::kDone) ++failed_;
  if (cleanup.hold == 0) return Erase(cleanup);
  cleanup.settled = true;
  cleanup.in_flight = false;
  cleanup.outcome.kind = kind;
  cleanup.outcome.failure = std::move(failure);
}

void PendingCleanups::OnResult(const Request& request, const Result& result, base::Instant now,
                               Effects& effects) {
  PendingCleanup* const cleanup = Find(request.grant);
  if (cleanup == nullptr) return;
  cleanup->in_flight = false;
  auto* const release = std::get_if<ReleaseRequest>(&cleanup->request.what);
  if (release != nullptr && std::exchange(release->native, false)) {
    const Failed* const failed = result.failed();
    // The value is flagged or another one, or the server refuses the command: the script knows
    // more.
    if (std::holds_alternative<NotHeld>(result.what) ||
        (failed != nullptr && !failed->may_have_executed && !absl::IsUnavailable(failed->why))) {
      cleanup->tried_once = false;
      cleanup->due = now;
      return;
    }
  }
  if (std::holds_alternative<NotHeld>(result.what)) {
    // If an earlier attempt went unanswered, it was executed: nothing else ends a grant before its
    // deadline. Otherwise the grant was lost.
    const bool by_us = cleanup->uncertain && now < cleanup->deadline;
    return Settle(*cleanup, by_us ? Released::Kind::kDone : Released::Kind::kLost);
  }
  const Failed* const failed = result.failed();
  if (failed == nullptr) return Settle(*cleanup, Released::Kind::kDone);

  cleanup->uncertain |= failed->may_have_executed;
  cleanup->silent = failed->may_have_executed;
  cleanup->refused = !failed->may_have_executed && !failed->not_sent;
  const bool may_pass = failed->not_sent || absl::IsUnavailable(failed->why) ||
                        absl::IsResourceExhausted(failed->why);
  if (!may_pass) {
    if (cleanup->releases) {
      effects.notices.push_back(
          {.kind = Notice::Kind::kReleaseFailed,
           .token = cleanup->outcome.token,
           .remaining = std::max(cleanup->expires - now, absl::ZeroDuration()),
           .why = base::Unshared(failed->why)});
    }
    return Settle(*cleanup, Released::Kind::kRefused, base::Unshared(failed->why));
  }
  cleanup->outcome.failure = base::Unshared(failed->why);
  const absl::Duration backoff =
      cleanup->failures == 0
          ? absl::ZeroDuration()  // the connection broke: repeat at once on the next one
          : Spread(kFirstBackoff, kLongestBackoff / 2, cleanup->failures, request.grant);
  ++cleanup->failures;
  cleanup->due = now + backoff;
  if (now < cleanup->expires) cleanup->due = std::min(cleanup->due, cleanup->expires);
}

bool PendingCleanups::stays_taken() const {
  return std::ranges::any_of(cleanups_, [](const PendingCleanup& cleanup) {
    const auto* const release = std::get_if<ReleaseRequest>(&cleanup.request.what);
    return release != nullptr && release->taken_until != 0 && !cleanup.settled;
  });
}

bool PendingCleanups::Hurry(base::Instant now) {
  bool any_in_flight = false;
  for (PendingCleanup& cleanup : cleanups_) {
    if (cleanup.settled) continue;
    const bool again = absl::IsUnavailable(cleanup.outcome.failure) && !cleanup.refused;
    if (again) cleanup.due = std::min(cleanup.due, now);
    any_in_flight |= cleanup.in_flight || cleanup.due <= now;
  }
  return any_in_flight;
}

void PendingCleanups::RepeatAll(base::Instant due) {
  for (PendingCleanup& cleanup : cleanups_) cleanup.due = due;
}

// Returns true if nothing of it can be left at the server. A server that was only stopped executes
// an unanswered request when it continues, however late, so the cleanup must follow.
bool PendingCleanups::IsOver(const PendingCleanup& cleanup, base::Instant now) const {
  return cleanup.expires <= now && !(cleanup.request.leaves_tombstone() && cleanup.silent &&
                                     cleanups_.size() <= kMostAbandoned);
}

std::optional<Released> PendingCleanups::Repeat(uint64_t hold, base::Instant now) {
  PendingCleanup* const cleanup = FindOf(hold);
  if (cleanup == nullptr) return std::nullopt;
  if (cleanup->settled) return Outcome(hold);
  if (!cleanup->in_flight) cleanup->due = now;
  return Released{
      .kind = Released::Kind::kUnconfirmed, .hold = hold, .token = cleanup->outcome.token};
}

Released PendingCleanups::Outcome(uint64_t hold) {
  PendingCleanup* const cleanup = FindOf(hold);
  if (cleanup == nullptr) return {.kind = Released::Kind::kLost, .hold = hold};
  Released outcome = cleanup->outcome;
  outcome.failure = base::Unshared(outcome.failure);
  if (cleanup->settled) Erase(*cleanup);
  return outcome;
}

void PendingCleanups::Forget(uint64_t hold) {
  PendingCleanup* const cleanup = FindOf(hold);
  if (cleanup == nullptr) return;
  cleanup->hold = 0;
  if (cleanup->settled) Erase(*cleanup);
}

bool PendingCleanups::fresh() const {
  return std::all_of(cleanups_.begin(), cleanups_.end(), [](const PendingCleanup& cleanup) {
    return (cleanup.in_flight || cleanup.postponed) && cleanup.failures == 0 && !cleanup.settled;
  });
}

uint64_t PendingCleanups::releasing() const {
  return static_cast<uint64_t>(std::ranges::count(cleanups_, true, &PendingCleanup::releases));
}

}  // namespace redlatch::internal
