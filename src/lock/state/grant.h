// What a client has of a lock at the server: a pending acquire or a grant.
#ifndef REDLATCH_SRC_LOCK_STATE_GRANT_H_
#define REDLATCH_SRC_LOCK_STATE_GRANT_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/lock/state/effects.h"
#include "src/lock/state/request.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

struct Attempt {
  uint32_t number;
  base::Instant sent;
};

// An acquire that is being made, is queued, or must be repeated.
struct PendingAcquire {
  AcquireRequest acquire;
  bool in_flight = false;
  bool uncertain = false;  // an attempt went unanswered, and may be executed at any time
  bool queued = false;
  // the request in flight may have been sent too early to see the present state
  bool again = false;
  bool ask_again = false;  // the first thread that runs repeats it: it may be its turn
  bool claimed = false;    // a grant came by message whose claim is too short to work under
  bool forced = false;     // the request in flight may have been granted and ended by force since
  bool recalled = false;   // it was granted, and another client asks for it
  bool exposed = false;    // others may know the id: messages are not believed, the server is asked
  absl::InlinedVector<Attempt, 2> attempts;  // those that a grant may name
  base::Instant due;
  base::Instant began;  // the start of the wait
  uint32_t failures = 0;
  uint32_t polls = 0;  // because of a foreign owner, or without messages
};

// What the server granted, and the holds under it.
struct Grant {  // members are ordered to leave no gaps: a client may have very many
  GrantId id = 0;
  Terms terms;
  uint32_t attempt = 0;  // the attempt that was granted
  int retakes_left = 0;
  bool claimed = false;       // granted for `claim` so far, not for the lease
  bool others : 1 = false;    // other clients waited when the server was last asked
  bool queued : 1 = false;    // it was granted after a wait, so other clients may come again
  bool recalled : 1 = false;  // another client has asked for it
  bool tried : 1 = false;     // another client has lately tried to get the lock and found it cached
  bool recallable : 1 = false;  // it has been cached, so recalls must arrive at once
  bool extends : 1 = false;     // it was a manual hold: Extend() may be called
  bool pinned = false;          // not passed on inside the client
  bool in_flight = false;       // an attempt of its acquire is in flight
  bool uncertain = false;
  bool acked = false;      // by all that its terms require
  int16_t acked_by = 0;    // replicas, at the last confirmation
  absl::Duration claim;    // zero if it had the lease from the start
  base::Instant deadline;  // another client may be the owner from then on
  base::Instant lost_at;   // this client considers it lost from then on; somewhat before `deadline`
  base::Instant server_expires;  // the server has forgotten it from then on
  base::Instant asked;           // when the request that reported `others` was sent
  base::Instant turn_ends;       // this client may keep it until then although others wait
  base::Instant cached_until;    // cached until then; Instant() if it is not cached
  uint64_t next_token = 0;
  uint64_t last_token = 0;
  uint64_t first_token = 0;
  base::Instant reserved;                   // when the request that reserved the tokens was sent
  absl::InlinedVector<LocalHold, 1> holds;  // several if the grant is shared
  base::Instant renew_due;
  bool renewing = false;
  bool again = false;     // as in PendingAcquire
  bool forced = false;    // a message said so; the server's result will tell
  bool at_risk = false;   // its thread was told
  uint32_t failures = 0;  // of renewals, since the last success
  absl::Status last_failure;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_GRANT_H_
