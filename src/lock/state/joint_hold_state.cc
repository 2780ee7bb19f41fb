#include "src/lock/state/joint_hold_state.h"

#include <algorithm>
#include <utility>

namespace redlatch::internal {

JointHoldState::JointHoldState(std::vector<Part> parts)
    : HoldState(base::Instant::Infinite()), parts_(std::move(parts)) {
  for (const Part& part : parts_) part.view->FireToo(lost_);
}

base::Instant JointHoldState::Deadline() const {
  base::Instant first = base::Instant::Infinite();
  for (const Part& part : parts_) first = std::min(first, part.view->Deadline());
  return first;
}

std::stop_token JointHoldState::Lost(base::Instant now) {
  for (const Part& part : parts_) {
    std::stop_token its = part.view->Lost(now);
    if (its.stop_requested()) return its;
  }
  return lost_->get_token();
}

int JointHoldState::acked_by() const {
  int fewest = parts_.front().view->acked_by();
  for (const Part& part : parts_) fewest = std::min(fewest, part.view->acked_by());
  return fewest;
}

std::optional<FencingToken> JointHoldState::TokenOf(std::string_view name) const {
  std::optional<FencingToken> found;
  for (const Part& part : parts_) {
    if (part.name != name) continue;
    if (found) return FencingToken();
    found = part.token;
  }
  return found ? *found : FencingToken();
}

}  // namespace redlatch::internal
