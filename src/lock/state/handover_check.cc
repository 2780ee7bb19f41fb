#include "src/lock/state/handover_check.h"

#include <algorithm>

#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

constexpr uint32_t kMostFailures = 4;  // then a waiter's next heartbeat takes over

}  // namespace

void HandoverCheck::Add(base::Instant due, Fresh fresh) {
  if (none()) {
    *this = {};
    grant_ = fresh();
    due_ = due;
  } else if (then_.is_infinite() || then_ < due) {
    then_ = due;
  }
}

void HandoverCheck::AddAtOnce(base::Instant now, base::Instant then, Fresh fresh) {
  if (!none()) then = std::min({then, then_, due_ > now ? due_ : then});
  *this = {};
  grant_ = fresh();
  due_ = now;
  then_ = then;
}

std::optional<Request> HandoverCheck::Next(base::Instant now) {
  if (none() || in_flight_ || now < due_) return std::nullopt;
  in_flight_ = true;
  return Request{.what = CancelRequest(), .grant = grant_, .sent = now};
}

base::Instant HandoverCheck::due() const {
  return none() || in_flight_ ? base::Instant::Infinite() : due_;
}

bool HandoverCheck::OnResult(const Request& request, const Result& result, base::Instant now,
                             Fresh fresh) {
  if (none() || grant_ != request.grant) return false;
  if (result.failed() != nullptr && ++failures_ < kMostFailures) {
    in_flight_ = false;
    due_ = now + Spread(kFirstBackoff, kLongestBackoff, failures_, grant_);
    return true;
  }
  const base::Instant then = then_;
  Clear();
  if (!then.is_infinite()) Add(then, fresh);
  return true;
}

}  // namespace redlatch::internal
