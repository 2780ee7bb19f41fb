#include "src/lock/state/release_operation.h"

#include <algorithm>

namespace redlatch::internal {
namespace {

constexpr absl::Duration kCheckAgain = absl::Milliseconds(1);

}  // namespace

auto ReleaseOperation::Resume(const Event& event, base::Instant now, LockState& state,
                              Effects& effects) -> Action {
  using Kind = Released::Kind;
  if (!begun_) {
    begun_ = true;
    released_ = call_.hold == 0 ? state.Unlock(call_.thread, now, effects)
                                : state.Release(call_.hold, now, effects, call_.token);
  } else if (released_.kind == Kind::kUnconfirmed) {
    if (event.result != nullptr) state.OnResult(*request_, *event.result, now, effects);
    released_ = state.Outcome(released_.hold);
  }
  request_.reset();
  if (released_.kind != Kind::kUnconfirmed || call_.deadline <= now) return {};
  request_ = state.NextRequestOf(released_.hold, now);
  if (request_) {
    requests_ = true;
    return {.kind = Action::Kind::kRun, .until = call_.deadline};
  }
  if (requests_) return {};  // it failed and is due later: the background repeats it
  // An acquire took the release along: the thread that sent it gets the result.
  return {.kind = Action::Kind::kSleep, .until = std::min(now + kCheckAgain, call_.deadline)};
}

void ReleaseOperation::Postpone(LockState& state) {
  state.Postpone(released_.hold);
  request_.reset();
  requests_ = false;
}

}  // namespace redlatch::internal
