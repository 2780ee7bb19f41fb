#include "src/lock/state/hold_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace redlatch::internal {
namespace {

std::stop_token RequestedToken() {
  static const auto* const token = [] {
    std::stop_source source;
    source.request_stop();
    return new std::stop_token(source.get_token());
  }();
  return *token;
}

}  // namespace

base::Instant HoldState::Deadline() const {
  if (fork_guard_.InForkedChild()) return base::Instant();
  return base::Instant::FromNanos(deadline_.load());
}

std::stop_token HoldState::Lost(base::Instant now) {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  const base::Instant deadline = Deadline();
  const bool is_released = deadline == base::Instant();
  if (is_lost_ || (!is_released && deadline <= now)) return RequestedToken();
  return ListenersOf(Signal::kLost).source.get_token();
}

std::stop_token HoldState::Wanted() {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  if (!is_told_) return {};
  return is_wanted_ ? RequestedToken() : ListenersOf(Signal::kWanted).source.get_token();
}

auto HoldState::ListenersOf(Signal signal) -> Listeners& {
  if (listeners_ == nullptr) listeners_ = std::make_unique<std::array<Listeners, 2>>();
  Listeners& its = (*listeners_)[static_cast<size_t>(signal)];
  if (!its.source.stop_possible()) its.source = std::stop_source();
  return its;
}

void HoldState::SetWanted(bool wanted) {
  const base::MutexLock lock(mu_);
  is_told_ = true;
  is_wanted_ = is_wanted_ || wanted;
}

void HoldState::Lose() {
  const base::MutexLock lock(mu_);
  Release();  // first: a lost hold must not be valid
  is_lost_ = true;
}

void HoldState::Fire(Signal signal) {
  Listeners told;
  {
    const base::MutexLock lock(mu_);
    if (listeners_ == nullptr) return;
    // Not removed: if another thread does this too, both return only after all stops are requested.
    told = (*listeners_)[static_cast<size_t>(signal)];
  }
  told.source.request_stop();
  if (told.joint == nullptr) return;
  for (const auto& each : *told.joint) {
    if (const auto its = each.lock()) its->request_stop();
  }
}

void HoldState::FireToo(Signal signal, const std::shared_ptr<std::stop_source>& joint) {
  const base::MutexLock lock(mu_);
  Listeners& its = ListenersOf(signal);
  const auto all = std::make_shared<Joint>();
  if (its.joint != nullptr) {
    std::copy_if(its.joint->begin(), its.joint->end(), std::back_inserter(*all),
                 [](const auto& each) { return !each.expired(); });
  }
  all->push_back(joint);
  its.joint = all;
}

JointHoldState::JointHoldState(std::vector<Part> parts)
    : HoldState(base::Instant::Infinite()), parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    part.view->FireToo(Signal::kLost, lost_);
    if (!part.view->Wanted().stop_possible()) continue;
    if (wanted_ == nullptr) wanted_ = std::make_shared<std::stop_source>();
    part.view->FireToo(Signal::kWanted, wanted_);
  }
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

std::stop_token JointHoldState::Wanted() {
  if (wanted_ == nullptr) return {};
  for (const Part& part : parts_) {
    std::stop_token its = part.view->Wanted();
    if (its.stop_requested()) return its;
  }
  return wanted_->get_token();
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
