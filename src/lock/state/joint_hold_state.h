#ifndef REDLATCH_SRC_LOCK_STATE_JOINT_HOLD_STATE_H_
#define REDLATCH_SRC_LOCK_STATE_JOINT_HOLD_STATE_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "redlatch/fencing_token.h"
#include "src/base/clock.h"
#include "src/lock/state/hold_state.h"

namespace redlatch::internal {

// The state of a hold that consists of several. It is valid until the first of them ends, and lost
// when the first of them is lost. Thread-safe.
class JointHoldState final : public HoldState {
 public:
  struct Part {
    std::string name;
    FencingToken token;
    std::shared_ptr<HoldState> view;
  };

  explicit JointHoldState(std::vector<Part> parts);

  base::Instant Deadline() const override;
  std::stop_token Lost(base::Instant now) override;
  int acked_by() const override;  // the fewest of all parts
  // Returns nothing if no part has that name, or several have.
  std::optional<FencingToken> TokenOf(std::string_view name) const override;

 private:
  const std::vector<Part> parts_;
  const std::shared_ptr<std::stop_source> lost_ = std::make_shared<std::stop_source>();
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_JOINT_HOLD_STATE_H_
