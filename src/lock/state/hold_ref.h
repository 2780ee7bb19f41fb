#ifndef REDLATCH_SRC_LOCK_STATE_HOLD_REF_H_
#define REDLATCH_SRC_LOCK_STATE_HOLD_REF_H_

#include <cstdint>
#include <memory>

#include "redlatch/fencing_token.h"
#include "src/base/clock.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

// A thread's hold, under a grant of its client.
struct HoldRef {
  uint64_t hold = 0;  // 0 if there is no hold
  FencingToken token;
  // When a hold is looked up: its depth. 0 if it was lost and is not yet unlocked.
  uint32_t depth = 0;
  GrantId grant = 0;                     // 0 if it was lost
  std::shared_ptr<HoldState> view = {};  // set if the user can see the hold
  base::Instant not_before = {};         // when the token may first be used
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_HOLD_REF_H_
