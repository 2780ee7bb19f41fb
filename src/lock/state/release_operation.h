#ifndef REDLATCH_SRC_LOCK_STATE_RELEASE_OPERATION_H_
#define REDLATCH_SRC_LOCK_STATE_RELEASE_OPERATION_H_

#include <cstdint>

#include "redlatch/fencing_token.h"
#include "src/base/clock.h"
#include "src/lock/state/operation.h"

namespace redlatch::internal {

// One call that ends a hold, until the server has confirmed it. If there is no confirmation by the
// deadline, the background repeats the release.
class ReleaseOperation final : public Operation {
 public:
  struct Call {
    uint64_t hold = 0;  // 0: the thread's hold by lock()
    uint64_t thread = 0;
    FencingToken token;  // for the observer, if the hold was lost
    base::Instant deadline;
  };
  explicit ReleaseOperation(const Call& call) : call_(call) {}

  Action Resume(const Event& event, base::Instant now, LockState& state, Effects& effects) override;

  bool ends_with_client() const override { return false; }

  // request() is not sent now. The next Resume() fetches it again, unless an acquire of this client
  // takes it along first; an acquire must not overtake it.
  void Postpone(LockState& state);
  // No caller will ask for the outcome.
  void Forget(LockState& state) { state.Forget(released_.hold); }
  bool has_request() const { return request_.has_value(); }
  const Released& released() const { return released_; }
  base::Instant deadline() const { return call_.deadline; }

 private:
  const Call call_;
  bool begun_ = false;
  bool requests_ = false;  // this operation, and no other, has sent the release
  Released released_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_RELEASE_OPERATION_H_
