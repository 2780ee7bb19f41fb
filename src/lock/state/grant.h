// What a client has to do with a lock at the server: it pursues it, or has a grant.
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

// A bid is being made, is queued, or must be repeated.
struct PendingAcquire {
  AcquireRequest acquire;
  bool in_flight = false;
  bool uncertain = false;  // an attempt went unanswered: it may be executed at any time
  bool queued = false;
  bool again = false;      // what is in flight may have been sent too early to tell what is so
  bool ask_again = false;  // to be repeated by the first thread that runs: it may be our turn
  bool claimed = false;    // a grant was heard that is not enough to work under
  bool forced = false;     // what is in flight may have been granted, and was ended by force since
  bool recalled = false;   // it was granted, as another client asks for what it has
  bool exposed = false;    // others may know its id: no message is believed, the server is asked
  absl::InlinedVector<Attempt, 2> attempts;  // those that a grant may echo
  base::Instant due;
  base::Instant began;  // to wait
  uint32_t failures = 0;
  uint32_t polls = 0;  // of a foreign owner, or without messages
};

// What the server granted, and the holds of threads under it.
struct Grant {  // its order leaves no gaps: a client may have very many
  GrantId id = 0;
  Terms terms;
  uint32_t attempt = 0;  // that was granted
  int retakes_left = 0;
  bool claimed = false;         // for less than the lease, so far: for `claim`
  bool others : 1 = false;      // waited when it was asked
  bool queued : 1 = false;      // it came after others, who may come again
  bool recalled : 1 = false;    // another client has asked for it
  bool tried : 1 = false;       // lately another client's try found the lock kept
  bool recallable : 1 = false;  // it has rested: another client that asks is to be heard at once
  bool extends : 1 = false;     // Extend() may be called: it was a manual hold
  bool pinned = false;          // never passes on inside the client
  bool in_flight = false;       // an attempt of the bid that won; its answer is still to come
  bool uncertain = false;
  bool acked = false;            // by all that its terms want
  int16_t acked_by = 0;          // replicas, the last time that it counted
  absl::Duration claim;          // zero: it was the lease from the first
  base::Instant deadline;        // from here on another may be the owner
  base::Instant lost_at;         // from here on it is lost to us: somewhat before
  base::Instant server_expires;  // from here on the server has forgotten us
  base::Instant asked;           // when what told of `others` was sent
  base::Instant turn_ends;       // until then it stays with this client, though others wait
  base::Instant cached_until;    // no thread has it, and one may take it; Instant(): it does not
  uint64_t next_token = 0;
  uint64_t last_token = 0;
  uint64_t first_token = 0;
  base::Instant reserved;                   // when the command that reserved them was sent
  absl::InlinedVector<LocalHold, 1> holds;  // several where they are shared
  base::Instant renew_due;
  bool renewing = false;
  bool again = false;     // as in Pursuit
  bool forced = false;    // so it was told; the server's answer tells whether it is gone
  bool at_risk = false;   // its thread was told so
  uint32_t failures = 0;  // of renewals, since the last that succeeded
  absl::Status last_failure;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_GRANT_H_
