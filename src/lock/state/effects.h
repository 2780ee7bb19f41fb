// What an event at a machine brings about.
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

// One local ownership of the lock, from a grant to the release or loss. Recursion is counted here;
// Redis knows of the grant only.
struct LocalHold {
  uint64_t id = 0;
  uint64_t thread = 0;
  uint32_t depth = 0;        // in all
  uint32_t std_depth = 0;    // of them, by lock()
  bool unconfirmed = false;  // Confirm() asks for it; if it is lost now, its thread never had it
  FencingToken token;
  base::Instant began;
  std::shared_ptr<const LockOptions> options;
  std::shared_ptr<HoldState> view;  // made for the first who looks
};

// A hold that was lost, for the notifier.
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

// What an event brings about, but for scripts: those are fetched with NextSend().
struct Effects {
  absl::InlinedVector<Waiter*, 4> wakes;
  std::vector<Loss> losses;
  std::vector<Notice> notices;
  // Options of holds that ended: what a user's functions hold on to must not go under a mutex.
  absl::InlinedVector<std::shared_ptr<const LockOptions>, 1> ended;
};

// What became of a release, as far as it is known.
struct Released {
  enum class Kind : uint8_t {
    kDone,      // nothing is left to do: nested, passed on inside the client, or confirmed
    kUnderWay,  // the server has not confirmed it; `failure` is the last reason why not
    kLost,      // the hold was lost before
    kNotHeld,   // by a thread that has no hold
    kRefused,   // the server refused; `failure` tells why
  };
  Kind kind = Kind::kDone;
  uint64_t hold = 0;
  FencingToken token;
  absl::Status failure;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_EFFECTS_H_
