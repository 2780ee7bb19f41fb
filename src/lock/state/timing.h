// The durations by which the machine paces itself.
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

// A call returns by its wait + 50 ms: this is for the server's answer, the rest for getting there.
inline constexpr absl::Duration kAnswerGrace = absl::Milliseconds(40);

// How much longer than its wait a call may take until the server has answered. One that does not
// wait for the lock waits for the answer all the same: std::lock() needs to know.
inline absl::Duration PatienceForAnswer(absl::Duration wait, absl::Duration command_timeout) {
  return wait > absl::ZeroDuration() ? kAnswerGrace : std::max(command_timeout, kAnswerGrace);
}

// In whole nanoseconds of 64 bits, as absl multiplies and divides numbers of 128. For small factors
// and what may be a lease.
inline absl::Duration Scaled(absl::Duration whole, int64_t times, int64_t parts) {
  return absl::Nanoseconds(absl::ToInt64Nanoseconds(whole) * times / parts);
}

// How much sooner than the server a client considers a lease to be over.
inline absl::Duration DriftMargin(absl::Duration lease) {
  return Scaled(lease, 1, 100) + absl::Milliseconds(2);
}

// How much sooner than its local deadline a hold is lost, so that its holder has been told by then
// though threads do not run at once.
inline absl::Duration ExpiryLead(absl::Duration lease) {
  return std::min(Scaled(lease, 1, 20), absl::Milliseconds(10));
}

// Seconds, as coarse as some intervals may be.
inline uint32_t SecondOf(base::Instant now) {
  return static_cast<uint32_t>(now.nanos() / 1'000'000'000);
}

// If another client has tried to get a lock and found it kept, the lock is not kept for so long, or
// for up to a second more. So later tries, once a second, find it free if no thread has it.
inline constexpr uint32_t kNotKeptSeconds = 2;

// How often a waiter repeats its bid: what tells the server that it lives.
inline absl::Duration HeartbeatInterval(absl::Duration lease, absl::Duration longest) {
  return std::min(Scaled(lease, 1, 3), longest);
}

// A wait so much longer than usual is looked into.
inline absl::Duration LongWait(absl::Duration usual) {
  return std::max(absl::Seconds(1), Scaled(usual, 4, 1));
}

// After a hand-over by message: when its owner asks for the whole lease, if the section lasts.
inline absl::Duration ConfirmAfter(absl::Duration claim) {
  return std::min(absl::Milliseconds(100), Scaled(claim, 1, 20));
}

// A claim is so long, or longer if the server is far away, but no longer than the lease.
inline constexpr absl::Duration kShortestClaim = absl::Seconds(2);

// How much later than the end of a claim somebody looks whether it was taken.
inline constexpr absl::Duration kCheckGrace = absl::Milliseconds(5);

// How long a bid that nobody wants any more can live at the server: in the queue, then holding.
inline absl::Duration LongestAbandoned(absl::Duration lease, absl::Duration longest_heartbeat) {
  return Scaled(HeartbeatInterval(lease, longest_heartbeat), 3, 1) + lease;
}

// A renewal never shortens a lease: with this one, it only tells whether the grant is there.
inline constexpr absl::Duration kCheckOnly = absl::Milliseconds(1);

inline base::Instant RenewDue(const Terms& terms, base::Instant sent) {
  return terms.manual ? base::Instant::Infinite() : sent + Scaled(terms.lease, 1, 3);
}

// Doubles from `first` to `longest`, spread over the upper half by `salt`: a machine draws no
// random numbers.
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
