#include "src/engine/machine/hold_view.h"

namespace redlatch::engine {
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

base::Instant HoldView::Deadline() const {
  if (fork_guard_.InForkedChild()) return base::Instant();
  return base::Instant::FromNanos(deadline_.load());
}

std::stop_token HoldView::Lost(base::Instant now) {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  const base::Instant deadline = Deadline();
  const bool is_released = deadline == base::Instant();
  if (is_lost_ || (!is_released && deadline <= now)) return RequestedToken();
  if (!source_.stop_possible()) source_ = std::stop_source();
  return source_.get_token();
}

void HoldView::Lose() {
  const base::MutexLock lock(mu_);
  Release();  // first: a hold that is lost is not valid
  is_lost_ = true;
}

void HoldView::Fire() {
  std::stop_source source(std::nostopstate);
  std::vector<std::weak_ptr<std::stop_source>> joint;
  {
    const base::MutexLock lock(mu_);
    source = source_;
    joint.swap(joint_);
  }
  source.request_stop();
  for (const auto& each : joint) {
    if (const auto its = each.lock()) its->request_stop();
  }
}

void HoldView::FireToo(const std::shared_ptr<std::stop_source>& joint) {
  const base::MutexLock lock(mu_);
  std::erase_if(joint_, [](const auto& each) { return each.expired(); });
  joint_.push_back(joint);
}

}  // namespace redlatch::engine
