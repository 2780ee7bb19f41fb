// The consequences of an event at a lock state.
#ifndef REDLATCH_SRC_LOCK_STATE_EFFECTS_H_
#define REDLATCH_SRC_LOCK_STATE_EFFECTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"
#include "src/base/clock.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// A thread's hold, from the grant to the release or loss. It counts reentry, which the server does
// not see.
struct LocalHold {
  uint64_t id = 0;
  uint64_t thread = 0;
  uint32_t depth = 0;        // of all levels
  uint32_t std_depth = 0;    // levels by lock()
  bool unconfirmed = false;  // Confirm() asks for it; if it is lost before, its thread never had it
  FencingToken token;
  base::Instant began;
  std::shared_ptr<const LockOptions> options;
  std::shared_ptr<HoldState> view;  // created on first access
};

// A hold that was lost, for the loss notifier.
struct Loss {
  LocalHold hold;
  std::string reason;
};

// Something to tell the observer.
struct Notice {
  enum class Kind : uint8_t { kRenewed, kAtRisk, kRecovered, kReleaseFailed };
  Kind kind = Kind::kRenewed;
  FencingToken token;
  absl::Duration remaining = absl::ZeroDuration();
  absl::Status why;
};

// The consequences of an event, except requests, which NextRequest() returns.
struct Effects {
  absl::InlinedVector<Waiter*, 4> wakes;
  std::vector<Loss> losses;
  std::vector<Notice> notices;
  // The options of holds that ended. They are destroyed outside the mutex, since they may own a
  // user's functions.
  absl::InlinedVector<std::shared_ptr<const LockOptions>, 1> ended;
};

// The known outcome of a release.
struct Released {
  enum class Kind : uint8_t {
    kDone,  // nothing is left to do: an inner level, passed on inside the client, or confirmed
    kUnconfirmed,  // the server has not confirmed it; `failure` says why
    kLost,         // the hold was lost before
    kNotHeld,      // the thread has no hold
    kRefused,      // the server refused it; `failure` says why
  };
  Kind kind = Kind::kDone;
  uint64_t hold = 0;
  FencingToken token;
  absl::Status failure;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_EFFECTS_H_
