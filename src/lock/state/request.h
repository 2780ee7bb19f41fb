// The requests that a lock state makes and their results, as values without a wire format.
#ifndef REDLATCH_SRC_LOCK_STATE_REQUEST_H_
#define REDLATCH_SRC_LOCK_STATE_REQUEST_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/lua_script.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/base/status.h"

namespace redlatch::internal {

// Identifies a grant and the pending acquire that it answers: the server's grant id without the
// client's part. It is fresh for every acquire and secret until it is granted; see base::Numbers. 0
// means none.
using GrantId = uint64_t;

// Set in the id of a grant that its client may cache, or whose holder is told of waiters. The
// scripts then recall it when another client asks for the lock.
inline constexpr GrantId kCacheable = GrantId{1} << 63U;
inline bool IsCacheable(GrantId grant) { return (grant & kCacheable) != 0; }

// The number of counts of a latch, and the time of the last one in microseconds of the server's
// clock. A waiter reports them to the server, so that a server that lacks some of them is detected.
struct LatchCounts {
  uint64_t counts = 0;
  uint64_t last = 0;
};

// Set in the id of a grant that is acquired natively: by the command SET, in place of a script.
// Such a grant is asked for once, so no late request can bring it back.
inline constexpr GrantId kNative = GrantId{1} << 62U;
inline bool IsNative(GrantId grant) { return (grant & kNative) != 0; }

// A duration in 8 bytes. absl::Duration has 12, and a client may have very many locks and grants.
class PackedDuration {
 public:
  PackedDuration() = default;
  explicit PackedDuration(absl::Duration time) : nanos_(absl::ToInt64Nanoseconds(time)) {}
  absl::Duration get() const { return absl::Nanoseconds(nanos_); }

 private:
  int64_t nanos_ = 0;
};

// What a waiter asks the server for. A grant serves only waiters with equal terms. Members are
// ordered to leave no gaps.
struct Terms {
  absl::Duration lease = absl::ZeroDuration();  // at the server
  // How much of that the client leaves unused, besides the margin for clocks that differ in speed.
  PackedDuration margin;
  PackedDuration at_least;     // AcquireOptions::at_least, or Lease::StayTaken()
  bool manual : 1 = false;     // never renewed
  bool whole : 1 = false;      // a claim is not enough: the thread needs the whole lease
  bool cacheable : 1 = false;  // LockOptions::cache_for
  bool bounded : 1 = false;    // LockOptions::at_most
  bool told : 1 = false;       // LockOptions::tell_if_wanted: the hold is told of waiters
  base::AcksWanted acks;       // the grant counts only once these have it
  // A semaphore's permits that are wanted, and its capacity.
  uint32_t permits = 1;
  uint32_t capacity = 0;
  std::shared_ptr<const std::vector<std::string>> args = nullptr;  // of a user's own lock type

  // The lease that an acquire asks for.
  absl::Duration first_lease() const { return std::max(lease, at_least.get()); }
  // The hold ends although its thread goes on.
  bool ends() const { return manual || bounded; }

  friend bool operator==(const Terms& a, const Terms& b) {
    return a.lease == b.lease && a.margin.get() == b.margin.get() && a.manual == b.manual &&
           a.whole == b.whole && a.cacheable == b.cacheable && a.bounded == b.bounded &&
           a.told == b.told && a.at_least.get() == b.at_least.get() && a.acks == b.acks &&
           a.permits == b.permits && a.capacity == b.capacity &&
           (a.args == b.args || (a.args && b.args && *a.args == *b.args));
  }
};

// The arguments of `acquire`, and of a `release` that queues the client again.
struct AcquireRequest {
  GrantId grant = 0;
  Terms terms;
  uint32_t attempt = 0;
  bool wait = false;         // the client is queued if the lock is not free
  bool recalls = false;      // if it does not wait: recall a cached grant that stands in the way
  bool listen = false;       // the reply says whether messages reach this client
  uint32_t amount = 1;       // tokens to reserve, or permits; never changes for a grant
  uint32_t claim_ms = 0;     // if set, each grant is a claim, at least that long: BriefClaimMs()
  uint64_t ticket = 0;       // the place in the queue that the client had before
  LatchCounts counted = {};  // of a latch: the counts that this client knows

  bool is_brief() const { return claim_ms != 0; }
};

struct RenewRequest {
  base::AcksWanted acks = {};                         // fails unless all of them have it in time
  absl::Duration ack_timeout = absl::ZeroDuration();  // how long to wait for them
  base::Instant deadline = {};                        // the grant's, if acks are wanted
  // Of this grant, as far as the client knows; 0 if it is not to reserve tokens for a cached grant.
  uint64_t last_token = 0;
  bool draws_token = false;  // the grant was acquired natively and has no token yet
};
struct ReleaseRequest {
  base::Instant expires = {};  // the server has forgotten the grant from then on
  bool tombstone = false;      // an acquire is unanswered
  bool native = false;         // by a command that fails if the value is flagged
  uint64_t last_used = 0;      // the last token used, so that the rest can be given back
  // 0 if unknown, since a renewal that reserved tokens is unanswered.
  uint64_t last_reserved = 0;
  // If set, the lock stays taken until that time of the server, in microseconds, and for no longer
  // than `taken_for` from the release.
  uint64_t taken_until = 0;
  absl::Duration taken_for = absl::ZeroDuration();
  std::optional<AcquireRequest> next = std::nullopt;  // an acquire to be made after the release
};
struct CancelRequest {
  bool tombstone = false;  // as in ReleaseRequest
  uint32_t amount = 1;     // that of the acquire
};

// A script that is not part of a grant, such as one of a latch.
struct ScriptRequest {
  const LuaScript* script = nullptr;
  std::vector<std::string> args = {};
  std::string_view own_key = {};  // the suffix of a key that only this script gets, or empty
};

// A script to run. Deadlines in its result count from `sent`.
struct Request {
  std::variant<AcquireRequest, RenewRequest, ReleaseRequest, CancelRequest, ScriptRequest> what;
  GrantId grant = 0;
  absl::Duration lease = absl::ZeroDuration();  // of the grant; in a RenewRequest, the new one
  uint32_t permits = 1;                         // of the grant; not in an AcquireRequest
  base::Instant sent;

  bool leaves_tombstone() const {
    if (const auto* cancel = std::get_if<CancelRequest>(&what)) return cancel->tombstone;
    const auto* const release = std::get_if<ReleaseRequest>(&what);
    return release != nullptr && release->tombstone;
  }
  // The acquire that it makes, or null.
  AcquireRequest* acquire() { return const_cast<AcquireRequest*>(std::as_const(*this).acquire()); }
  const AcquireRequest* acquire() const {
    if (const auto* acquire = std::get_if<AcquireRequest>(&what)) return acquire;
    const auto* const release = std::get_if<ReleaseRequest>(&what);
    return release != nullptr && release->next ? &*release->next : nullptr;
  }
};

// The outcomes of an acquire.
struct AcquireGranted {
  uint64_t token = 0;                           // the first one of the block
  absl::Duration lease = absl::ZeroDuration();  // the remaining time
  int64_t others = 0;                           // waiters of other clients
  int64_t clock = 0;     // of a quorum's node, in microseconds; 0 if it was not reported
  bool claimed = false;  // a quorum's node said so by message: the lease is that of a claim
};
struct AcquireQueued {
  // When the present grants could expire. Negative if that is unknown; then the client asks from
  // time to time.
  absl::Duration retry_after = absl::ZeroDuration();
  int64_t position = -1;  // 0 is the head, -1 not known
  uint64_t ticket = 0;
  LatchCounts counted = {};  // of a latch
};
struct AcquireBusy {
  absl::Duration retry_after = absl::ZeroDuration();  // as in AcquireQueued
};
struct AcquireCancelled {};  // it had been cancelled before
struct AcquireNotMade {};    // there was nothing to release, so nothing was queued
struct AcquireTaken {};      // a native acquire found the lock taken, or was refused
using AcquireResult = std::variant<AcquireNotMade, AcquireGranted, AcquireQueued, AcquireBusy,
                                   AcquireCancelled, AcquireTaken>;

// The outcomes of a script.
struct Failed {
  absl::Status why;
  bool may_have_executed = false;
  bool not_sent = false;  // there was no connection, or the server refused this client
  bool too_few = false;   // fewer replicas acknowledged than requested
};
struct StillHeld {
  int64_t others = 0;       // waiters of other clients, if the grant is shared or cacheable
  uint64_t last_token = 0;  // that the grant has reserved, if it is cacheable; 0 if unchanged
  bool acked = false;       // by all that were requested
  int16_t acked_by = 0;     // the number of replicas
};
struct Freed {
  AcquireResult next = {};
};
// The text that a ScriptRequest returned.
struct ScriptText {
  std::string text;
};
// The reply to a renewal or release of a grant that is over. A native release cannot tell whether
// the value is only flagged.
struct NotHeld {};
struct Cancelled {
  bool was_held = false;
};

struct Result {
  std::variant<Failed, AcquireResult, StillHeld, Freed, NotHeld, Cancelled, ScriptText> what;
  bool unfinished = false;  // the script has more to hand over: it must be continued at once
  // If positive, the lock was handed over by message, and a handover check is due after this time.
  absl::Duration check_after = absl::ZeroDuration();
  bool unsubscribed = false;  // the server has no subscription of this client
  bool no_native = false;     // this user may not run native commands, or the server has none
  bool missed = false;  // the client was not told of a grant, or left the queue without being told

  // The failure, or null.
  const Failed* failed() const { return std::get_if<Failed>(&what); }
  // The outcome of the acquire, if one was made.
  const AcquireResult& acquire() const {
    static constexpr AcquireResult kUnmade;
    if (const auto* const acquire = std::get_if<AcquireResult>(&what)) return *acquire;
    const auto* const freed = std::get_if<Freed>(&what);
    return freed != nullptr ? freed->next : kUnmade;
  }
  // Returns true if the server refused the script for now and did not execute it.
  bool refused_for_now() const {
    return unreachable() && !failed()->may_have_executed && !failed()->not_sent;
  }
  bool unreachable() const { return failed() != nullptr && absl::IsUnavailable(failed()->why); }
};

// The result of a request whose deadline came before the reply.
inline Result NoResult() {
  return {.what = Failed{.why = base::MakeStatus(absl::StatusCode::kUnavailable,
                                                 "the server did not answer in time"),
                         .may_have_executed = true}};
}

// The result of a request for which memory ran out.
inline Result NoMemoryLeft() {
  return {.what = Failed{.why = base::NoMemory(), .may_have_executed = true}};
}

// Runs the function. If it runs out of memory, the result says that the script may have been
// executed.
template <class Function>
Result OrNoMemory(Function run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return NoMemoryLeft();
  }
}

// The message that hands a lock over. It carries a claim only: a lease requires a reply.
struct NewGrant {
  GrantId grant = 0;
  uint32_t attempt = 0;
  uint64_t token = 0;
  absl::Duration lease = absl::ZeroDuration();  // the remaining time; in a message, of the claim
  int64_t others = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_REQUEST_H_
