#ifndef REDLATCH_SRC_LOCK_STATE_HOLD_REF_H_
#define REDLATCH_SRC_LOCK_STATE_HOLD_REF_H_

#include <cstdint>
#include <memory>

#include "redlatch/fencing_token.h"
#include "src/base/clock.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

// What a thread has of a lock: a hold, under one of its client's grants.
struct HoldRef {
  uint64_t hold = 0;  // 0: nothing
  FencingToken token;
  // What a thread has already, where it is looked up: how often. 0: it was lost, and unlock() is
  // still to come.
  uint32_t depth = 0;
  GrantId grant = 0;                     // the same, unless it was lost
  std::shared_ptr<HoldState> view = {};  // where it is to be shown to the user
  base::Instant not_before = {};         // the token must not be used sooner
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_HOLD_REF_H_
