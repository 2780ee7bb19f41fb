#include "src/engine/machine/looks.h"

#include <algorithm>

#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

constexpr uint32_t kMostFailures = 4;  // then it is left to the next heartbeat of whoever waits

}  // namespace

void Looks::Add(base::Instant due, Fresh fresh) {
  if (none()) {
    *this = {};
    grant_ = fresh();
    due_ = due;
  } else if (then_.is_infinite() || then_ < due) {
    then_ = due;
  }
}

void Looks::AddAtOnce(base::Instant now, base::Instant then, Fresh fresh) {
  if (!none()) then = std::min({then, then_, due_ > now ? due_ : then});
  *this = {};
  grant_ = fresh();
  due_ = now;
  then_ = then;
}

std::optional<Send> Looks::Next(base::Instant now) {
  if (none() || in_flight_ || now < due_) return std::nullopt;
  in_flight_ = true;
  return Send{.what = ToCancel(), .grant = grant_, .sent = now};
}

base::Instant Looks::due() const { return none() || in_flight_ ? base::Instant::Infinite() : due_; }

bool Looks::OnAnswer(const Send& send, const Answer& answer, base::Instant now, Fresh fresh) {
  if (none() || grant_ != send.grant) return false;
  if (answer.failed() != nullptr && ++failures_ < kMostFailures) {
    in_flight_ = false;
    due_ = now + Spread(kFirstBackoff, kLongestBackoff, failures_, grant_);
    return true;
  }
  const base::Instant then = then_;
  Clear();
  if (!then.is_infinite()) Add(then, fresh);
  return true;
}

}  // namespace redlatch::engine
