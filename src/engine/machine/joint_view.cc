#include "src/engine/machine/joint_view.h"

#include <algorithm>
#include <utility>

namespace redlatch::engine {

JointView::JointView(std::vector<Part> parts)
    : HoldView(base::Instant::Infinite()), parts_(std::move(parts)) {
  for (const Part& part : parts_) part.view->FireToo(lost_);
}

base::Instant JointView::Deadline() const {
  base::Instant first = base::Instant::Infinite();
  for (const Part& part : parts_) first = std::min(first, part.view->Deadline());
  return first;
}

std::stop_token JointView::Lost(base::Instant now) {
  for (const Part& part : parts_) {
    std::stop_token its = part.view->Lost(now);
    if (its.stop_requested()) return its;
  }
  return lost_->get_token();
}

int JointView::acked_by() const {
  int fewest = parts_.front().view->acked_by();
  for (const Part& part : parts_) fewest = std::min(fewest, part.view->acked_by());
  return fewest;
}

std::optional<FencingToken> JointView::TokenOf(std::string_view name) const {
  std::optional<FencingToken> found;
  for (const Part& part : parts_) {
    if (part.name != name) continue;
    if (found) return FencingToken();
    found = part.token;
  }
  return found ? *found : FencingToken();
}

}  // namespace redlatch::engine
