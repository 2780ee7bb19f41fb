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

// The view of a hold that is made of several: it lasts until the first of them ends, and is lost
// with the first that is. Thread-safe.
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
  int acked_by() const override;  // the fewest
  // None of a name that no part has, or several have.
  std::optional<FencingToken> TokenOf(std::string_view name) const override;

 private:
  const std::vector<Part> parts_;
  const std::shared_ptr<std::stop_source> lost_ = std::make_shared<std::stop_source>();
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_JOINT_HOLD_STATE_H_
