#include "src/lock/state/multi_operation.h"

#include <utility>

namespace redlatch::internal {

auto MultiOperation::Resume(absl::Status outcome, absl::FunctionRef<bool(size_t)> holds,
                            bool stopped, base::Instant now) -> Action {
  switch (phase_) {
    case Phase::kPausing:
      phase_ = Phase::kTaking;
      first_ = ordered_ ? 0 : refused_;
      break;
    case Phase::kTaking: {
      size_t refused = taken_;
      outcome_ = std::move(outcome);
      if (outcome_.ok() && ++taken_ == locks_) {
        for (refused = 0; refused < locks_ && holds(At(refused));) ++refused;
        if (refused == locks_) return {};
        outcome_ = absl::AbortedError("one of the locks was lost while another was waited for");
      }
      if (outcome_.ok()) break;
      refused_ = At(refused);
      Decide(stopped, now);
      phase_ = Phase::kGivingBack;
      [[fallthrough]];
    }
    case Phase::kGivingBack:
      if (taken_ > 0) return {.kind = Action::Kind::kGiveBack, .lock = At(--taken_)};
      if (!again_) return {};
      phase_ = Phase::kPausing;
      return {.kind = Action::Kind::kSleep, .until = again_at_};
  }
  const bool waits = taken_ == 0 || ordered_;
  return {.kind = Action::Kind::kTake, .lock = At(taken_), .until = waits ? deadline_ : now};
}

// Decides whether another round may succeed. A lock that was only tried may be busy or unreachable.
void MultiOperation::Decide(bool stopped, base::Instant now) {
  const bool tried =
      !ordered_ && (absl::IsDeadlineExceeded(outcome_) || absl::IsUnavailable(outcome_));
  again_at_ = now + backoff_.Next();
  again_ = (tried || absl::IsAborted(outcome_)) && again_at_ < deadline_;
  if (!again_ || !stopped) return;
  again_ = false;
  outcome_ = absl::CancelledError("the wait was stopped");
}

}  // namespace redlatch::internal
