// What the machine asks of the server, and what it hears: values, free of the wire.
#ifndef REDLATCH_SRC_ENGINE_MACHINE_SCRIPT_IO_H_
#define REDLATCH_SRC_ENGINE_MACHINE_SCRIPT_IO_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/engine/machine/waiter.h"

namespace redlatch::engine {

// A grant, and the bid that it answers: the server's hold id without the client's own part. Fresh
// for every acquisition at the server. 0: none.
using GrantId = uint64_t;

// From one number to the next: all digits change, as the server's Lua hashes some of them only (see
// docs/decisions/0017-numbers-whose-digits-all-change.md).
inline constexpr GrantId kNumberStep = 7919;

enum class Operation : uint8_t { kAcquire, kRenew, kRelease, kCancel };

// How many have counted a latch down, and when the last of them did, in microseconds of the
// server's clock. A waiter tells it back, so that a server that has not received all of them is
// found out.
struct Told {
  uint64_t counts = 0;
  uint64_t last = 0;
};

// One acquisition at the server, as `acquire` and a re-queueing `release` are given it.
struct Bid {
  GrantId grant = 0;
  Terms terms;
  uint32_t attempt = 0;
  bool wait = false;    // be queued where it is not free
  bool listen = false;  // be told whether messages reach this client
  uint32_t block = 1;   // tokens to reserve; never changes for a hold
  uint64_t ticket = 0;  // the place in the queue it once had
  Told told = {};       // of a latch
};

// A script to run. Deadlines of what it brings count from `sent`.
struct Send {
  Operation operation = Operation::kAcquire;
  GrantId grant = 0;
  base::Instant sent;
  absl::Duration lease = absl::ZeroDuration();  // kRenew: the new one; else the hold's own
  Bid bid;                                      // kAcquire; kRelease where bid.grant is not 0
  bool tombstone = false;                       // kRelease, kCancel: an acquire is unanswered
  uint64_t last_used = 0;                       // kRelease: tokens, to give back the rest
  uint64_t last_reserved = 0;
  uint32_t block = 1;          // kCancel: what it may have reserved
  bool anew = false;           // over a new subscription, unless it is: the present one may be deaf
  base::Instant missed_since;  // `anew`: when the wait began in which a message was missed
};

// What became of a bid.
struct BidAnswer {
  enum class Kind : uint8_t { kNone, kGranted, kQueued, kBusy, kGone };
  Kind kind = Kind::kNone;
  uint64_t token = 0;                           // kGranted: the first of the block
  absl::Duration lease = absl::ZeroDuration();  // kGranted: what is left of it
  int64_t others = 0;                           // kGranted: who wait; also of a shared kHeld
  // kQueued: when what blocks could expire; negative: unknown, so ask now and then.
  absl::Duration retry_after = absl::ZeroDuration();
  int64_t position = 0;  // kQueued; 0: the head
  uint64_t ticket = 0;   // kQueued
  Told told = {};        // kQueued, at a latch
};

struct Answer {
  enum class Kind : uint8_t {
    kBid,       // of kAcquire: see `bid`
    kHeld,      // of kRenew
    kReleased,  // of kRelease; `bid` tells of what was re-queued
    kNotHeld,   // of kRenew, kRelease
    kCancelled,
    kFailed,  // `failure`
  };
  Kind kind = Kind::kFailed;
  BidAnswer bid;
  // The lock was handed over by message: so long after, somebody looks whether it was taken. 0: no.
  absl::Duration look = absl::ZeroDuration();
  // That after a look of a millisecond: of what the present script handed over. 0: nothing.
  absl::Duration look_later = absl::ZeroDuration();
  bool deaf = false;    // the server has no subscription of this client
  bool missed = false;  // the hold was granted, or left the queue, and this client was not told
  absl::Status failure;
  bool may_have_executed = false;
  bool not_sent = false;  // no connection, or a server that refused it: it said nothing to this
};

// The message by which a lock is handed over.
struct NewGrant {
  GrantId grant = 0;
  uint32_t attempt = 0;
  uint64_t token = 0;
  absl::Duration claim = absl::ZeroDuration();  // until it is confirmed
  int64_t others = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_MACHINE_SCRIPT_IO_H_
