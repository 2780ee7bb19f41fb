#ifndef REDLATCH_SRC_LOCK_STATE_OPERATION_H_
#define REDLATCH_SRC_LOCK_STATE_OPERATION_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/lock/state/lock_state.h"
#include "src/lock/state/request.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// One call as a state machine without I/O. Its driver, a thread or the event loop, calls Resume()
// with what has happened, and executes the action that it returns, until that is kDone. All methods
// but request() need the mutex of the lock state.
class Operation {
 public:
  struct Action {
    enum class Kind : uint8_t {
      kSubscribe,  // make messages reach this client, until then; Resume() with the status
      kRun,        // run request() until then; Resume() with its result
      kConfirm,    // run request(), a renewal that replicas must confirm; Resume() with its result
      kSleep,      // until then, or until the waker is called; Resume()
      kDone,
    };
    Kind kind = Kind::kDone;
    base::Instant until;
  };
  struct Event {
    const Result* result = nullptr;               // of request(), if it was run
    const absl::Status* subscribed_as = nullptr;  // the outcome of kSubscribe
    bool subscribed = false;                      // messages can reach this client
    bool messages_arrive = false;                 // they do, as far as the client knows
    bool listens = false;                         // on the lock's own channel, if it has one
    bool stopped = false;                         // its stop token fired
    bool gone = false;                            // its lock object was destroyed
  };

  virtual ~Operation() = default;

  virtual Action Resume(const Event& event, base::Instant now, LockState& state,
                        Effects& effects) = 0;
  const Request& request() const { return *request_; }

  // Returns true if the end of the client ends it at once.
  virtual bool ends_with_client() const { return true; }
  // Something has happened that Resume() must see. Returns true if the driver must be woken for it.
  virtual bool NeedsWake() { return false; }
  // The driver slept until the end of its time. Returns true if a call of the waker has begun;
  // the driver must wait for it.
  virtual bool Overslept() { return false; }

 protected:
  Operation() = default;
  Operation(Operation&&) = default;

  std::optional<Request> request_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_OPERATION_H_
