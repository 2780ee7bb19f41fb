#ifndef REDLATCH_SRC_ENGINE_MACHINE_HELD_H_
#define REDLATCH_SRC_ENGINE_MACHINE_HELD_H_

#include <cstdint>
#include <memory>

#include "redlatch/fencing_token.h"
#include "src/base/clock.h"
#include "src/engine/machine/hold_view.h"
#include "src/engine/machine/script_io.h"

namespace redlatch::engine {

// What a thread has of a lock: a hold, under one of its client's grants.
struct Held {
  uint64_t hold = 0;  // 0: nothing
  FencingToken token;
  // What a thread has already, where it is looked up: how often. 0: it was lost, and unlock() is
  // still to come.
  uint32_t depth = 0;
  GrantId grant = 0;                    // the same, unless it was lost
  std::shared_ptr<HoldView> view = {};  // where it is to be shown to the user
  base::Instant not_before = {};        // the token must not be used sooner
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_MACHINE_HELD_H_
