// The durations that pace a lock state.
#ifndef REDLATCH_SRC_LOCK_STATE_TIMING_H_
#define REDLATCH_SRC_LOCK_STATE_TIMING_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

inline constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
inline constexpr absl::Duration kLongestBackoff = absl::Seconds(1);

// A call returns by its wait + 50 ms: this part is for the server's reply, the rest for scheduling.
inline constexpr absl::Duration kAnswerGrace = absl::Milliseconds(40);

// The nodes of a quorum vote within this time of each other; a waiter asks those that do not.
inline constexpr absl::Duration kVotesCome = absl::Milliseconds(20);

// How much longer than its wait a call may wait for the server. A call with no wait also waits for
// the reply, since std::lock() must know the outcome.
inline absl::Duration AnswerTimeout(absl::Duration wait, absl::Duration command_timeout) {
  return wait > absl::ZeroDuration() ? kAnswerGrace : std::max(command_timeout, kAnswerGrace);
}

// Computes in 64-bit nanoseconds, since absl uses 128 bits. For small factors and durations of
// leases.
inline absl::Duration Scaled(absl::Duration whole, int64_t times, int64_t parts) {
  return absl::Nanoseconds(absl::ToInt64Nanoseconds(whole) * times / parts);
}

// Returns true if holds of the lock are told of waiters.
inline bool TellsIfWanted(const LockOptions& options) {
  return options.tell_if_wanted || options.on_wanted != nullptr;
}

// How long a client may serve its own threads while no other client is known to wait.
inline absl::Duration FreeTurn(const LockOptions& options) {
  return options.turn.value_or(absl::Milliseconds(5));
}

// The same, after it has waited or while others wait. By default it is a few times as long as a
// handover takes, so that few acquisitions need one, and others wait little longer than for
// handovers alone.
inline constexpr absl::Duration kShortestTurn = absl::Microseconds(300);
inline constexpr absl::Duration kLongestTurn = absl::Milliseconds(1);
inline absl::Duration ContendedTurn(const LockOptions& options, absl::Duration round_trip) {
  if (options.turn) return *options.turn;
  return std::clamp(Scaled(round_trip, 4, 1), kShortestTurn, kLongestTurn);
}

// How much earlier than the server a client considers a lease over.
inline absl::Duration DriftMargin(absl::Duration lease) {
  return Scaled(lease, 1, 100) + absl::Milliseconds(2);
}

// How much more of a lease the client leaves unused, because of LockOptions.
inline absl::Duration Margin(const LockOptions& options) {
  return absl::Duration(options.grace) + options.stop_margin;
}

// The moment from which a client no longer counts on a lease that it asked for at `asked`.
inline base::Instant LocalDeadline(base::Instant asked, absl::Duration lease,
                                   absl::Duration margin = absl::ZeroDuration()) {
  return asked + (lease - DriftMargin(lease) - margin);
}

// The lease that a client must ask for at `asked` to get this local deadline; at most `longest`.
inline absl::Duration LeaseUntil(base::Instant deadline, base::Instant asked, absl::Duration margin,
                                 absl::Duration longest) {
  if (longest <= deadline - asked) return longest;
  return std::min(longest, Scaled(deadline - asked + margin + DriftMargin({}), 100, 99));
}

// Returns true if LockOptions::at_most limits holds of the lock.
inline bool IsBounded(const LockOptions& options) {
  return options.at_most < absl::InfiniteDuration();
}

// How much earlier than its local deadline a hold is reported lost, so that its thread knows in
// time even if threads do not run at once.
inline constexpr absl::Duration kLongestExpiryLead = absl::Milliseconds(10);
inline absl::Duration ExpiryLead(absl::Duration lease) {
  return std::min(Scaled(lease, 1, 20), kLongestExpiryLead);
}

// The time in seconds, for intervals that may be coarse.
inline uint32_t SecondOf(base::Instant now) {
  return static_cast<uint32_t>(now.nanos() / 1'000'000'000);
}

// If another client has tried to get a lock and found it cached, the client does not cache it for
// this time or up to a second more. So later tries, once per second, find it free if no thread has
// it.
inline constexpr uint32_t kNotCachedSeconds = 2;

// How often a waiter repeats its acquire to tell the server that it is alive.
inline absl::Duration HeartbeatInterval(absl::Duration lease, absl::Duration longest) {
  return std::min(Scaled(lease, 1, 3), longest);
}

// After a handover by message: when its owner asks for the whole lease, if the hold lasts.
inline absl::Duration ConfirmAfter(absl::Duration claim) {
  return std::min(absl::Milliseconds(100), Scaled(claim, 1, 20));
}
// When that is. A long margin may leave so little of the claim that it must be sooner.
inline base::Instant ConfirmDue(absl::Duration claim, base::Instant deadline, base::Instant now) {
  return now + std::min(ConfirmAfter(claim), (deadline - now) / 2);
}

// The length of a claim. It is longer if the server is far away, but never longer than the lease.
inline constexpr absl::Duration kShortestClaim = absl::Seconds(2);

// The claim of a client that expects to cache the grant in its turn. If its process ends then, it
// delays the others for that long, and clients that end in turn after turn delay them for the sum.
// It must outlast the usual wait, since its deadline counts from the request, or each handover
// would need another round trip.
inline constexpr absl::Duration kShortestBriefClaim = absl::Milliseconds(250);
inline uint32_t BriefClaimMs(absl::Duration usual_wait) {
  const absl::Duration claim =
      std::clamp(Scaled(usual_wait, 4, 1), kShortestBriefClaim, kShortestClaim);
  return static_cast<uint32_t>(absl::ToInt64Milliseconds(claim));
}

// A wait that is this long, compared with the usual one, makes the client ask the server.
inline absl::Duration LongWait(absl::Duration usual) {
  return std::max(absl::Seconds(1), Scaled(usual, 4, 1));
}
// Near the head, the client asks sooner, and again each time the wait has grown by half.
inline absl::Duration LongWaitNearHead(absl::Duration usual, absl::Duration waited) {
  return std::max({kShortestBriefClaim, Scaled(usual, 2, 1), Scaled(waited, 1, 2)});
}

// For how long a native acquire makes its client the owner: a claim, until it is renewed.
inline absl::Duration NativeClaim(const Terms& terms) {
  return std::min(terms.lease, kShortestClaim);
}

// How long after the end of a claim the handover check is due.
inline constexpr absl::Duration kCheckGrace = absl::Milliseconds(5);

// How long an unwanted acquire can live at the server: in the queue, then as a grant.
inline absl::Duration LongestAbandoned(absl::Duration lease, absl::Duration longest_heartbeat) {
  return Scaled(HeartbeatInterval(lease, longest_heartbeat), 3, 1) + lease;
}

// A renewal never shortens a lease, so one with this lease only checks whether the grant exists.
inline constexpr absl::Duration kCheckOnly = absl::Milliseconds(1);

inline base::Instant RenewDue(const Terms& terms, base::Instant sent) {
  return terms.manual ? base::Instant::Infinite()
                      : sent + Scaled(terms.lease - terms.margin.get(), 1, 3);
}

// A back-off from `first` to `longest` that doubles, spread over its upper half by `salt`, since a
// lock state draws no random numbers.
inline absl::Duration Spread(absl::Duration first, absl::Duration longest, uint32_t times,
                             uint64_t salt) {
  const absl::Duration whole = std::min(longest, first * (1 << std::min(times, 10U)));
  const uint64_t mixed = (salt * 0x9E3779B97F4A7C15U) ^ (times * 0xBF58476D1CE4E5B9U);
  const int64_t half = absl::ToInt64Nanoseconds(whole) / 2;
  const auto share = static_cast<int64_t>(mixed >> 44U);  // of 2^20
  return absl::Nanoseconds(half + half * share / (1 << 20U));
}

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_TIMING_H_
