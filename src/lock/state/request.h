// What the machine asks of the server, and what it hears: values, free of the wire.
#ifndef REDLATCH_SRC_LOCK_STATE_REQUEST_H_
#define REDLATCH_SRC_LOCK_STATE_REQUEST_H_

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/lua_script.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/base/status.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// A grant, and the bid that it answers: the server's hold id without the client's own part. Fresh
// for every acquisition at the server, and secret until then: see base::Numbers. 0: none.
using GrantId = uint64_t;

// Of a grant that its client may keep though no thread has it, until another client asks: scripts
// tell its client when one does.
inline constexpr GrantId kCacheable = GrantId{1} << 63U;
inline bool IsCacheable(GrantId grant) { return (grant & kCacheable) != 0; }

// How many have counted a latch down, and when the last of them did, in microseconds of the
// server's clock. A waiter tells it back, so that a server that has not received all of them is
// found out.
struct LatchCounts {
  uint64_t counts = 0;
  uint64_t last = 0;
};

// One acquisition at the server, as `acquire` and a re-queueing `release` are given it.
struct AcquireRequest {
  GrantId grant = 0;
  Terms terms;
  uint32_t attempt = 0;
  bool wait = false;         // be queued where it is not free
  bool calls = false;        // if it does not wait: whoever keeps it, and may not need it, is told
  bool claims = false;       // a grant by reply is a claim, too
  bool listen = false;       // be told whether messages reach this client
  uint32_t block = 1;        // tokens to reserve; never changes for a hold
  uint64_t ticket = 0;       // the place in the queue it once had
  LatchCounts counted = {};  // of a latch: what this client knows
};

struct RenewRequest {
  base::AcksWanted acks = {};                      // it fails where not all of them have it in time
  absl::Duration patience = absl::ZeroDuration();  // for them
  base::Instant deadline = {};                     // the grant's, where acks are wanted
  uint64_t last_token = 0;  // that the client knows to be this grant's, if it may be kept
};
struct ReleaseRequest {
  base::Instant expires = {};  // from here on the server has forgotten what is released
  bool tombstone = false;      // an acquire is unanswered
  bool awaited = false;        // others may wait, and are to hear of it before this client does
  uint64_t last_used = 0;      // tokens, to give back the rest
  // 0: not known, as a renewal is unanswered that reserved tokens up to the end of the grant.
  uint64_t last_reserved = 0;
  std::optional<AcquireRequest> next = std::nullopt;  // made behind it
};
struct CancelRequest {
  bool tombstone = false;  // as of ToRelease
  uint32_t block = 1;      // what it may have reserved
};

// A script that is no part of a grant, such as one of a latch.
struct ScriptRequest {
  const LuaScript* script = nullptr;
  std::vector<std::string> args = {};
};

// A script to run. Deadlines of what it brings count from `sent`.
struct Request {
  std::variant<AcquireRequest, RenewRequest, ReleaseRequest, CancelRequest, ScriptRequest> what;
  GrantId grant = 0;
  absl::Duration lease = absl::ZeroDuration();  // the grant's; of ToRenew the new one
  base::Instant sent;
  // It is run over a new subscription, unless that is new already: the present one may be deaf, as
  // the wait that began then ended without a message.
  std::optional<base::Instant> missed_since = std::nullopt;
  // Of a first bid, made the moment after this client has handed the lock to another: it will be
  // queued, so that the next that matters is a message. For so long the answer may lie unread;
  // zero: it is to be read at once.
  absl::Duration unread_for = absl::ZeroDuration();

  bool leaves_tombstone() const {
    if (const auto* cancel = std::get_if<CancelRequest>(&what)) return cancel->tombstone;
    const auto* const release = std::get_if<ReleaseRequest>(&what);
    return release != nullptr && release->tombstone;
  }
  // The bid that it makes; null: none.
  AcquireRequest* acquire() { return const_cast<AcquireRequest*>(std::as_const(*this).acquire()); }
  const AcquireRequest* acquire() const {
    if (const auto* acquire = std::get_if<AcquireRequest>(&what)) return acquire;
    const auto* const release = std::get_if<ReleaseRequest>(&what);
    return release != nullptr && release->next ? &*release->next : nullptr;
  }
};

// What became of a bid.
struct AcquireGranted {
  uint64_t token = 0;                           // the first of the block
  absl::Duration lease = absl::ZeroDuration();  // what is left of it
  int64_t others = 0;                           // who wait
  int64_t clock = 0;                            // of a quorum's node, in microseconds; 0: not told
};
struct AcquireQueued {
  // When what blocks could expire; negative: unknown, so ask now and then.
  absl::Duration retry_after = absl::ZeroDuration();
  int64_t position = 0;  // 0: the head
  uint64_t ticket = 0;
  LatchCounts counted = {};  // at a latch
};
struct AcquireBusy {
  absl::Duration retry_after = absl::ZeroDuration();  // as of AcquireQueued
};
struct AcquireCancelled {};  // it was cancelled
struct AcquireNotMade {};    // there was nothing to be released, so nothing was queued behind it
using AcquireResult =
    std::variant<AcquireNotMade, AcquireGranted, AcquireQueued, AcquireBusy, AcquireCancelled>;

// What became of a script.
struct Failed {
  absl::Status why;
  bool may_have_executed = false;
  bool not_sent = false;  // no connection, or a server that refused it: it said nothing to this
  bool too_few = false;   // have confirmed it who were asked to
};
struct StillHeld {
  int64_t others = 0;       // who wait, of a grant that is shared or may stay
  uint64_t last_token = 0;  // of its own, if it may be kept; 0: as before
  bool acked = false;       // by all that were wanted
  int16_t acked_by = 0;     // replicas
};
struct Freed {
  AcquireResult next = {};
};
// What a ScriptRequest returned.
struct ScriptText {
  std::string text;
};
struct NotHeld {};  // of ToRenew, ToRelease
struct Cancelled {
  bool was_held = false;
};

struct Result {
  std::variant<Failed, AcquireResult, StillHeld, Freed, NotHeld, Cancelled, ScriptText> what;
  // The lock was handed over by message: so long after, somebody looks whether it was taken. 0: no.
  absl::Duration check_after = absl::ZeroDuration();
  // That after a look of a millisecond: of what the present script handed over. 0: nothing.
  absl::Duration check_later = absl::ZeroDuration();
  bool unsubscribed = false;  // the server has no subscription of this client
  bool missed = false;  // the hold was granted, or left the queue, and this client was not told

  // Null: it did not fail.
  const Failed* failed() const { return std::get_if<Failed>(&what); }
  // What became of the bid, where one was made.
  const AcquireResult& acquire() const {
    static constexpr AcquireResult kUnmade;
    if (const auto* const acquire = std::get_if<AcquireResult>(&what)) return *acquire;
    const auto* const freed = std::get_if<Freed>(&what);
    return freed != nullptr ? freed->next : kUnmade;
  }
  // The server refused it for now, and executed nothing.
  bool refused_for_now() const {
    return unreachable() && !failed()->may_have_executed && !failed()->not_sent;
  }
  bool unreachable() const { return failed() != nullptr && absl::IsUnavailable(failed()->why); }
};

// Its deadline came first.
inline Result NoResult() {
  return {.what = Failed{.why = absl::UnavailableError("the server did not answer in time"),
                         .may_have_executed = true}};
}

// What a function makes of a script. If memory is lacking for that, the script may have been
// executed all the same, as when its answer is lost.
template <class Function>
Result OrNoMemory(Function run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return {.what = Failed{.why = base::NoMemory(), .may_have_executed = true}};
  }
}

// The message by which a lock is handed over. It is no more than a claim: only a reply makes a
// lease.
struct NewGrant {
  GrantId grant = 0;
  uint32_t attempt = 0;
  uint64_t token = 0;
  absl::Duration lease = absl::ZeroDuration();  // what is left of it; of a message, the claim
  int64_t others = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_REQUEST_H_
